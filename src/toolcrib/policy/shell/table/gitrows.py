"""List git's sub-commands: the closed ones that only read, and the open ones: data."""

_LOG = """\
-pursSztcmwMCRabBDWGgEiFPo -# -n= -S= -G= -L=rev* -U? -M? -C? -l= --oneline --graph --all --stat? --numstat --shortstat
--name-only --name-status --summary --patch --no-patch --cached --staged --quiet --exit-code --check --raw --abbrev?
--abbrev-commit --decorate? --follow --reverse --merges --no-merges --first-parent --since= --until= --after=
--before= --author=* --committer=* --grep=* --format?=format --pretty?=format --date= --max-count= --skip= --branches?
--tags? --remotes? --left-right --cherry-pick --color? --no-color --color-words? --word-diff? --unified?
--diff-algorithm= --ignore-space-change --ignore-all-space --find-renames? --no-renames --diff-filter= --relative?
--no-ext-diff --no-textconv --text --function-context --merge-base --topo-order --full-history --walk-reflogs
--summary --numbered --email --count -O=read
""".replace("\n", " ")

GIT_CLOSED = f"""
git > diff | rev* | {_LOG} | roles@git_diff
git > log show whatchanged diff-tree diff-index diff-files shortlog range-diff cherry | rev* | {_LOG}
git > status | maybe* | -sbuvzu -u? --short --branch --porcelain? --long --verbose --untracked-files? --ignored? \
  --show-stash --no-renames
git > rev-parse rev-list | maybe* | -# -n= --short? --abbrev-ref? --verify --quiet -q --show-toplevel --show-prefix \
  --show-cdup --git-dir --absolute-git-dir --is-inside-work-tree --symbolic-full-name --all --branches? --tags? \
  --count --left-right --max-count= --since= --until= --after= --before= --author= --reverse --merges --no-merges \
  --first-parent --oneline
git > ls-files | maybe* | -cdomitszuvkx= -cdomitszuvk -x= --cached --deleted --others --ignored --modified --stage \
  --unmerged --exclude-standard --full-name --error-unmatch --format=
git > ls-tree | maybe* | -drtlz --name-only --name-status --long --full-name --full-tree --abbrev? --object-only
git > describe name-rev merge-base show-ref show-branch for-each-ref | maybe* | --tags --all --always --dirty? --long \
  --abbrev? --exact-match --match=* --contains= --first-parent --name-only -a --is-ancestor --fork-point --heads \
  --branches --verify -q --quiet -s -d --sort=format* --format=format --count= --points-at= --merged? --no-merged? \
  --ignore-case
git > count-objects check-ignore check-attr check-ref-format check-mailmap var version stripspace verify-pack \
  fsck patch-id | maybe* | -vHqnzas --human-readable --verbose --no-index --quiet --all \
  --branch --full --strict
git > help | none | -aigc --all
git > grep | text rev* | -aIinwvhHFEPGlLzcopWq -# -e=text* -A= -B= -C= -m= --and --ignore-case --full-name \
  --line-number --name-only --files-with-matches --count --color? --no-color --break --heading --function-context \
  --cached --untracked --quiet --text -O?=program!execute --open-files-in-pager?=program!execute | @git_grep
git > blame annotate | rev* | -wblstfneMCcp -M? -C? -L=* --since= --porcelain --date= --abbrev? --reverse
git > cat-file | rev* | -tsep
git > branch | text | -arvqil -vv --all --remotes --list --verbose --show-current --contains? --merged? --no-merged? \
  --points-at= --format=format --sort=format* --color? --no-color --abbrev? --ignore-case | options@git_listed
git > tag | text | -ln? -l -n? -i --list --contains? --merged? --no-merged? --points-at= --sort=format* \
  --format=format --ignore-case --color? | options@git_listed
git > config | text text | -lz --list --get --get-all --get-regexp --global --system --local --show-origin --name-only \
  --null --bool | ordered @git_config
git > remote | text text | -vn --verbose --all | options@git_remote
git > clean | text* | -ndxXq -e=* --dry-run | @git_clean
git > symbolic-ref | text none* | -q --quiet --short | !change
git > stash | text text | {_LOG} | options@git_stash
git > worktree | text text text | {_LOG} --porcelain --verbose | options@git_worktree
git > reflog | text text text | {_LOG} | options@git_reflog
git > notes | text text text | {_LOG} -F=read --file=read | options@git_notes
git > bisect submodule | text text text | {_LOG} --recursive | options@git_submodule
"""

GIT_OPEN = """
git > add commit merge cherry-pick revert am apply commit-tree write-tree update-index sparse-checkout pack-refs \
  pack-objects unpack-objects index-pack prune-packed update-server-info rerere mktree mktag replace merge-file \
  multi-pack-index commit-graph stage citool gui merge-tree | maybe* | -m= --message= -F=read --file=read | \
  change
git > bundle | text* | --version= | options@git_bundle
git > gc repack | text* | --prune?!discard -a!discard --cruft-expiration=!discard -A -d -f -F -l -n -q | change
git > mv | move* write | -f -k -n -v | change
git > hash-object | read* | -w!change -t=
git > format-patch | text* | -o=write --output-directory=write | change
git > archive | text* | -o=write --output=write --remote= --exec= | options@git_transfer
git > fetch pull ls-remote fetch-pack send-pack http-fetch | text* | -u? --upload-pack= --receive-pack= --exec= -o= \
  --depth= -j= | options@git_transfer
git > push | text* | --upload-pack= --receive-pack= --exec= -o= -u!protected --set-upstream!protected -f!discard \
  --force!discard --force-with-lease!discard --mirror!discard --delete!discard -d!discard | options@git_transfer
git > clone | text* | --upload-pack= -u= -c= --config= --template=exec -b= --branch= --origin= --depth= -j= \
  --reference=list --separate-git-dir=write | options@git_transfer
git > svn p4 imap-send daemon http-backend instaweb request-pull lfs | text* | | network
git > send-email | maybe* | | network
git > credential credential-store credential-cache | text* | | secret
git > init | create | --template=exec --separate-git-dir=write -b= | change
git > update-ref prune read-tree checkout-index | text* | | discard
git > rebase | text* | -x=shell --exec=shell -i --onto= -s= -X= --strategy=program | change
git > reset restore | text* | -f -S -W -s= --source= --hard --pathspec-from-file=read -p | @git_reset
git > checkout switch | text* | -b= -B= -c= -C!discard --create= --orphan= -f -t --pathspec-from-file=read -p | \
  options@git_checkout
git > rm | text* | -f -n --pathspec-from-file=read | @git_rm
git > difftool mergetool hook | text* | -x=program --extcmd=program -t= | execute
git > filter-branch filter-repo | text* | --tree-filter=shell --env-filter=shell --index-filter=shell \
  --msg-filter=shell --commit-filter=shell --tag-name-filter=shell | discard
git > maintenance | text* | | persist
"""
