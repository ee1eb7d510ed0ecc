"""List git's sub-commands: the closed ones that only read, and the open ones: data."""

_LOG = """\
-pursSztcmwMCRabBDWGgEiFPo -# -n= -S= -G= -L=* -U= -M? -C? -l= --oneline --graph --all --stat? --numstat --shortstat
--dirstat? --name-only --name-status --summary --patch --no-patch --cached --staged --quiet --exit-code --check --raw
--abbrev? --abbrev-commit --no-abbrev-commit --decorate? --no-decorate --follow --reverse --merges --no-merges
--first-parent --since= --until= --after= --before= --author=* --committer=* --grep=* --all-match --invert-grep
--regexp-ignore-case --extended-regexp --fixed-strings --perl-regexp --format= --pretty? --date= --max-count= --skip=
--branches? --tags? --remotes? --left-right --cherry-pick --cherry --color? --no-color --color-words? --word-diff?
--word-diff-regex= --unified= --inter-hunk-context= --minimal --patience --histogram --diff-algorithm=
--ignore-space-change --ignore-all-space --ignore-blank-lines --ignore-space-at-eol --find-renames? --find-copies?
--no-renames --diff-filter= --pickaxe-all --pickaxe-regex --relative? --no-relative --no-ext-diff --no-textconv
--full-index --text --function-context --merge-base --topo-order --date-order --author-date-order --show-signature
--boundary --simplify-by-decoration --full-history --ancestry-path --walk-reflogs --no-walk? --source --encoding=
--expand-tabs? --no-expand-tabs --notes? --no-notes --ours --theirs --base --submodule? --ignore-submodules?
--line-prefix= --src-prefix= --dst-prefix= --no-prefix --combined-all-paths --summary --numbered --email --group=
--count --no-mailmap --use-mailmap --clear-decorations --remerge-diff --ita-invisible-in-index -O=read
""".replace("\n", " ")

GIT_CLOSED = f"""
git > log show diff whatchanged diff-tree diff-index diff-files shortlog range-diff cherry | rev* | {_LOG}
git > status | maybe* | -sbuvzu -u? --short --branch --porcelain? --long --verbose --untracked-files? --ignored? \
  --show-stash --ignore-submodules? --renames --no-renames --ahead-behind --no-ahead-behind --column? --no-column
git > rev-parse rev-list | maybe* | -# -n= --short? --abbrev-ref? --verify --quiet -q --show-toplevel --show-prefix \
  --show-cdup --git-dir --absolute-git-dir --git-common-dir --is-inside-work-tree --is-bare-repository \
  --symbolic-full-name --symbolic --all --branches? --tags? --count --left-right --max-count= --since= --until= \
  --after= --before= --author= --reverse --merges --no-merges --first-parent --objects --not --parents --children \
  --oneline --left-only --right-only --is-shallow-repository --show-superproject-working-tree
git > ls-files | maybe* | -cdomitszuvkx= -cdomitszuvk -x= --cached --deleted --others --ignored --modified --stage \
  --unmerged --exclude=* --exclude-standard --full-name --error-unmatch --directory --eol --deduplicate --format=
git > ls-tree | maybe* | -drtlz --name-only --name-status --long --full-name --full-tree --abbrev? --object-only
git > describe name-rev merge-base show-ref show-branch for-each-ref | maybe* | --tags --all --always --dirty? \
  --long --abbrev? --exact-match --match=* --exclude=* --contains= --candidates= --first-parent --name-only --refs= \
  -a --octopus --is-ancestor --fork-point --independent --heads --branches --head --verify -q --quiet -s -d --hash? \
  --sort=* --format= --count= --points-at= --merged? --no-merged? --ignore-case
git > count-objects check-ignore check-attr check-ref-format check-mailmap var version stripspace verify-pack \
  verify-commit verify-tag fsck patch-id | maybe* | -vHqnzas --human-readable --verbose --non-matching --no-index \
  --quiet --all --branch --full --strict --no-progress
git > help | text* | -aigc --all --guides
git > grep | text rev* | -aIinwvhHFEPGlLzcopWq -# -e=text* -A= -B= -C= -m= --and --or --not --all-match \
  --ignore-case --word-regexp --invert-match --full-name --extended-regexp --perl-regexp --fixed-strings \
  --line-number --name-only --files-with-matches --files-without-match --count --color? --no-color --break --heading \
  --show-function --function-context --after-context= --before-context= --context= --cached --untracked --max-depth= \
  --only-matching --column --quiet --text -O?=program!execute --open-files-in-pager?=program!execute
git > blame annotate | rev* | -wblstfneMCcp -M? -C? -L=* --since= --ignore-rev=* --show-name --show-number \
  --show-email --porcelain --line-porcelain --date= --root --abbrev? --color-lines --color-by-age --reverse
git > cat-file | rev* | -tsep --batch-check? --batch? --path= --allow-unknown-type
git > branch | text | -arvqil -vv --all --remotes --list --verbose --show-current --contains? --no-contains? \
  --merged? --no-merged? --points-at= --format= --sort=* --color? --no-color --column? --no-column --abbrev? \
  --ignore-case
git > tag | text | -ln? -l -n? -i --list --contains? --no-contains? --merged? --no-merged? --points-at= --sort=* \
  --format= --column? --no-column --ignore-case --color?
git > config | text text | -lz --list --get --get-all --get-regexp --get-urlmatch --global --system --local \
  --show-origin --show-scope --name-only --null --type= --bool --int --default= --no-includes
git > remote | text text | -vn --verbose --push --all
git > clean | text* | -ndxXq -e=* --dry-run
git > stash | text text | {_LOG}
git > worktree reflog notes bisect symbolic-ref submodule | text text text | {_LOG} --porcelain --verbose \
  --recursive --cached --short
"""

GIT_OPEN = """
git > add commit merge cherry-pick revert am apply commit-tree write-tree update-index sparse-checkout gc repack \
  pack-refs pack-objects unpack-objects index-pack prune-packed update-server-info rerere mktree mktag replace \
  merge-file multi-pack-index commit-graph stage citool gui merge-tree bundle | maybe* | -F=read --file=read \
  --pathspec-from-file=read -t=read --template=read -m= --message= -C= -c= --author= --date= -S? --gpg-sign -u? -s? \
  -X= --directory= | change
git > mv | move* write | -f -k -n -v | change
git > hash-object | read* | -w!change -t=
git > format-patch | text* | -o=write --output-directory=write | change
git > archive | text* | -o=write --output=write --remote= --exec= --format= --prefix= --add-file=read
git > fetch pull ls-remote fetch-pack send-pack http-fetch | text* | -u? --upload-pack= --receive-pack= --exec= -o= \
  --depth= -j=
git > push | text* | --upload-pack= --receive-pack= --exec= -o= -u!protected --set-upstream!protected -f!discard \
  --force!discard --force-with-lease!discard --mirror!discard --delete!discard -d!discard
git > clone | text* | --upload-pack= -u= -c= --config= --template=exec -b= --branch= --origin= --depth= -j= \
  --reference=list --separate-git-dir=write
git > svn p4 send-email imap-send daemon http-backend instaweb request-pull lfs | text* | | network
git > credential credential-store credential-cache | text* | | secret
git > init | create | --template=exec --separate-git-dir=write -b= | change
git > update-ref prune read-tree checkout-index | text* | | discard
git > rebase | text* | -x=shell --exec=shell -i --onto= -s= -X= --strategy=program | change
git > reset checkout switch restore rm | text* | -b= -B= -c= -C!discard --create= --orphan= -f -t -S -W -ndxXe -s= \
  --source= --hard --pathspec-from-file=read -p
git > difftool mergetool hook | text* | -x=program --extcmd=program -t= | execute
git > filter-branch filter-repo | text* | --tree-filter=shell --env-filter=shell --index-filter=shell \
  --msg-filter=shell --commit-filter=shell --tag-name-filter=shell | discard
git > maintenance | text* | | persist
"""
