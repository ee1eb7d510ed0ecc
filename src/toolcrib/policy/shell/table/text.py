"""Describe programs that read text and print it, and programs that compute or encode it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..effects import Effect, of_operands, of_options, plain
from ..parts import Word
from ..sorting import SortedWords, cut, literal, sort_words
from .sedscript import sed_effects
from .spec import program


def _sed(call: SortedWords) -> Iterator[Effect]:
    """sed: the script is the first operand, unless -e or -f gives one; with -i the files are changed."""
    yield from of_options(call)
    scripts = call.values("-e", "--expression")
    operands = list(call.operands)
    if not scripts and not call.has("-f", "--file") and operands:
        scripts = [operands.pop(0)]
    if call.unsure:
        yield Effect(
            "unknown", None, "has words that could be options, known only when it runs", "shell:unknown-option"
        )
    for script in scripts:
        if script.text is None:
            yield Effect("unknown", script, "runs a sed script that is known only in part", "shell:unknown-code")
        else:
            yield from sed_effects(script.text)
    yield from of_operands(operands, "write*" if call.has("-i", "--in-place") else "read*")


def _awk(call: SortedWords) -> Iterator[Effect]:
    yield from of_options(call)
    operands = list(call.operands)
    scripts = call.values("-e", "--source")
    if not scripts and not call.has("-f", "--file", "-E", "--exec") and operands:
        scripts = [operands.pop(0)]
    for script in scripts:
        yield from _awk_script(script)
    inplace = any((word.text or "").startswith("inplace") for word in call.values("-i", "--include"))
    files = [word for word in operands if not re.match(r"[A-Za-z_]\w*=", word.start)]
    yield from of_operands(files, "write*" if inplace else "read*")


def _awk_script(script: Word) -> Iterator[Effect]:
    from ..code import effects_of_code

    if script.text is None:
        yield Effect("unknown", script, "runs an awk script that is known only in part", "shell:unknown-code")
        return
    yield from effects_of_code("awk", script.text)


def _jq(call: SortedWords) -> Iterator[Effect]:
    """jq: the filter is the first operand, unless -f names a file with it; some options take two values."""
    words: list[Word] = []
    rest = list(call.command.args)
    while rest:
        word = rest.pop(0)
        if word.text in ("--arg", "--argjson"):
            del rest[:2]
        elif word.text in ("--slurpfile", "--rawfile"):
            yield from (Effect("read", file) for file in rest[1:2])
            del rest[:2]
        else:
            words.append(word)
    call = sort_words(call.name, call.program, words, call.command)
    filters: Sequence[Word] = () if call.has("-f", "--from-file") else call.operands[:1]
    for word in filters:
        if word.text is None or re.search(r"\$ENV|\benv\b|\bimport\b|\binclude\b|\binput_filename\b", word.text):
            yield Effect("unknown", word, "reads the environment or other files from its filter", "shell:unknown-use")
    files = "read*" if not filters else "text text*" if call.has("--args", "--jsonargs") else "text read*"
    yield from plain(call, files)


def _grep(call: SortedWords) -> Iterator[Effect]:
    """grep: the pattern is the first operand, unless -e or -f gives one."""
    yield from plain(
        call, "read*" if call.has("-e", "--regexp", "-f", "--file", "--files", "--type-list") else "text read*"
    )


_YQ_READS = re.compile(r"\b(?:load\w*|strenv|env|envsubst|import|include|input_filename)\b|\$ENV")


def _yq(call: SortedWords) -> Iterator[Effect]:
    """yq, for both programs of that name: an expression, perhaps after `eval`, and files."""
    changes = call.has("-i", "--inplace", "--in-place")
    texts = call.texts()
    named = texts[:1] and texts[0] in ("eval", "e", "eval-all", "ea")
    expression = texts[1:2] if named else texts[:1]
    if call.has("--from-file") or (expression and (expression[0] is None or _YQ_READS.search(expression[0]))):
        yield Effect("unknown", None, "reads files or the environment from its expression", "shell:unknown-use")
    roles = "text write*" if changes else "text read*"
    yield from plain(call, f"text {roles}" if named else roles)


def _media(call: SortedWords) -> Iterator[Effect]:
    """Yield effects of special names: addresses, `concat:`, ImageMagick's `msl:` and `@file`, and its scripts."""
    yield from plain(call)
    for word in (*call.operands, *call.values("-i")):
        if ":" in word.start:
            yield Effect("network", word)
        elif word.start.startswith("@"):
            yield Effect("named", word)
        elif word.start.lower().endswith((".msl", ".mvg")):
            yield Effect("execute", word, "can run a script of ImageMagick's", "shell:unknown-code")
    for word in call.values("-format"):
        if word.start.startswith("@"):
            yield Effect("read", cut(word, 1))


def _xxd(call: SortedWords) -> Iterator[Effect]:
    """xxd takes no options after its first file: it writes to the next operand."""
    yield from plain(call)
    words = call.command.args
    first = next((at for at, word in enumerate(words) if call.operands and word is call.operands[0]), len(words))
    yield from (Effect("write", word) for word in words[first + 1 :])


def _binutils(call: SortedWords) -> Iterator[Effect]:
    """binutils read further words from `@file`."""
    yield from plain(call)
    for word in call.operands:
        if word.start.startswith("@") or not word.start:
            yield Effect("named", word, "takes words from a file", "shell:unknown-option")


def _less(call: SortedWords) -> Iterator[Effect]:
    """less: `less +!command file` runs a command at once."""
    for word in call.values("+"):
        if "!" in word.start or "|" in word.start:
            yield Effect("shell", literal(word.start.partition("!")[2] or word.start), "runs a command from a pager")
    yield from plain(call)


_GREP = (
    "-e= --regexp= -f=read --file=read -m= --max-count= -A= -B= -C= --after-context= "
    "--before-context= --context= --include= "
    "--exclude= --exclude-from=read --exclude-dir= -d= --directories= -D= --devices= --label= "
    "--binary-files= --color --colour -r -R"
)

PROGRAMS = {
    "cat rev colrm tsort": program("read*"),
    "tac": program("read*", "-s= --separator="),
    "nl": program(
        "read*",
        "-b= -d= -f= -h= -i= -l= -n= -s= -v= -w= --body-numbering= --section-delimiter= --footer-numbering= "
        "--header-numbering= --line-increment= --join-blank-lines= --number-format= --number-separator= "
        "--starting-line-number= --number-width=",
    ),
    "expand unexpand": program("read*", "-t= --tabs="),
    "fold": program("read*", "-w= --width="),
    "fmt": program("read*", "-w= -p= -g= --width= --prefix= --goal="),
    "pr": program(
        "read*",
        "-l= -w= -W= -o= -h= -D= -N= -e? -i? -n? -s? -S? --length= --width= --page-width= --indent= --header= "
        "--date-format= --first-line-number= --columns= --pages=",
    ),
    "paste": program("read*", "-d= --delimiters="),
    "look": program("text read*", "-t= --terminate="),
    "ul": program("read*", "-t= -T= --terminal="),
    "wdiff dwdiff icdiff": program("read*", "-w= -x= -y= -z= -d= -W= -L= -h="),
    "bat batcat": program(
        "read*",
        "-l= -r= -H= -m= --style= --language= --line-range= --theme= --tabs= --wrap= --terminal-width= --color= "
        "--highlight-line= --file-name= --map-syntax= --decorations= --paging= --italic-text= --pager=program "
        "--generate-config-file!unknown",
    ),
    "head tail ghead gtail": program("read*", "-n= -c= --lines= --bytes= --pid= -s= --sleep-interval= --retry -f -F"),
    "wc": program("read*", "--files0-from=names"),
    "cut": program("read*", "-d= -f= -c= -b= --delimiter= --fields= --characters= --bytes= --output-delimiter="),
    "column": program(
        "read*",
        "-s= -t -c= -o= -N= -R= -H= -O= -E= -T= -W= -r= -i= -p= -n= --separator= --output-separator= --table-columns=",
    ),
    "join": program("read*", "-1= -2= -j= -t= -o= -e= -a= -v="),
    "comm cmp": program("read*", "-n= -i= --bytes= --ignore-initial= --output-delimiter="),
    "diff sdiff diff3 colordiff": program(
        "read*",
        "-U= -C= -W= -I= -x= -X=read --exclude-from=read --exclude= -F= -S= --label= -L= -D= --unified "
        "--context --color --from-file=read "
        "--to-file=read --diff-program=program -o=write --output=write -l!execute --paginate!execute "
        "--horizon-lines= --width= --tabsize=",
    ),
    "diffstat": program("read*", "-p= -n= -w= -o=write -f="),
    "sort gsort": program(
        "read*",
        "-o=write --output=write -k= -t= -S= -T=write --temporary-directory=write "
        "--compress-program=program --files0-from=names --key= "
        "--field-separator= --buffer-size= --parallel= --batch-size= --random-source=read --sort=",
    ),
    "uniq": program("read write", "-f= -s= -w= --skip-fields= --skip-chars= --check-chars= --group --all-repeated"),
    "shuf": program(
        "maybe*", "-n= -i= -o=write --output=write --head-count= --input-range= --random-source=read -e --echo"
    ),
    "tr": program("text*"),
    "grep egrep fgrep zgrep bzgrep xzgrep zstdgrep pcregrep pcre2grep": program("text read*", _GREP, handler=_grep),
    "rg": program(
        "text read*",
        "-e= --regexp= -f=read --file=read -g= --glob= --iglob= -t= -T= --type= --type-not= --type-add= "
        "-A= -B= -C= -m= --max-count= "
        "--max-depth= -d= --max-filesize= -M= --max-columns= -j= --threads= -r= --replace= --sort= "
        "--sortr= --color= --colors= -E= --encoding= "
        "--ignore-file=read --path-separator= --context-separator= --field-match-separator= --pre=program "
        "--pre-glob= --hostname-bin=program --engine= "
        "-z!execute --search-zip!execute --files --type-list --after-context= --before-context= --context=",
        handler=_grep,
    ),
    "ugrep": program(
        "text read*",
        "-e= -f=read --file=read --filter=shell --pager=program --view=program --save-config=write "
        "-Q!execute --config=read",
        handler=_grep,
    ),
    "ag ack": program(
        "text read*",
        "-A= -B= -C= -G= -g= -m= --ignore= --ignore-dir= --depth= --pager=program -p=read "
        "--path-to-ignore=read --type-add= --ackrc=exec --files-from=names",
    ),
    "sed gsed": program(
        "text read*",
        "-e= --expression= -f=exec --file=exec -i?!change --in-place!change -l= --line-length= -n -E -r -s -z -u",
        handler=_sed,
    ),
    "awk gawk mawk nawk": program(
        "text read*",
        "-F= -v= -f=exec --file=exec -E=exec --exec=exec -e= --source= -i= --include= -l=exec --load=exec "
        "-o?!change --pretty-print!change "
        "-d?!change --dump-variables!change -p?!change --profile!change -D!execute --debug!execute "
        "--field-separator= --assign= -W=unknown",
        handler=_awk,
    ),
    "jq gojq jaq": program(
        "text read*",
        "-i!change --in-place!change --arg= --argjson= --slurpfile= --rawfile= -f=read --from-file=read "
        "-L=read --indent= --tab -n -r "
        "-e -s -c -S --args --jsonargs "
        "--seq --stream --null-input",
        handler=_jq,
    ),
    "yq": program(
        "text read*",
        "-i --inplace --in-place -o= --output-format= -p= --input-format= -I= --indent= -s!change --split-exp!change "
        "--from-file=read -P -r -y",
        handler=_yq,
    ),
    "xmllint": program(
        "remote*",
        "--xpath= --noent!unknown --dtdload!unknown --dtdattr!unknown --valid!unknown --postvalid!unknown "
        "--xinclude!unknown --loaddtd!unknown --catalogs!unknown --noout --format --schema=remote "
        "--relaxng=remote --dtdvalid=remote --output=write -o=write --shell!execute --encode= --pattern= "
        "--path=",
    ),
    "xsltproc": program(
        "read*", "-o=write --output=write --param= --stringparam= --path= --writesubtree=write", "execute"
    ),
    "csvcut csvgrep csvlook csvstat csvjson csvsort csvstack csvformat mlr xsv qsv dasel gron miller": program(
        "unknown*", "", "unknown"
    ),
    # bytes
    "xxd": program("read write", "-c= -l= -s= -g= -o= -n= -R= -r -p -i", handler=_xxd),
    "od hexdump hd hexyl": program(
        "read*",
        "-A= -t= -N= -j= -w= -S= -n= -s= -e= -f=read -v -c -C -x --format= --address-radix= --read-bytes= "
        "--skip-bytes=",
    ),
    "nm readelf size strings c++filt pahole otool lipo": program(
        "read*",
        "--section= --target= -T= -t? -n? -x? -p? -R? -w? -j? -P? -N? -s? -z? -e? -F= -U= --radix= --bytes= "
        "--encoding= --style= "
        "--format= --unicode= --hex-dump= --string-dump= --relocated-dump= --dwarf-depth= --dwarf-start= "
        "--decompress "
        "--plugin=exec --debug-dump --demangle --dwo-file=read",
        handler=_binutils,
    ),
    "objdump": program(
        "read*",
        "-j= -m= -M= -b= --section= --target= --architecture= --start-address= --stop-address= "
        "--disassembler-options= "
        "--prefix= --prefix-strip= --adjust-vma= --source-comment --insn-width= --dwarf-depth= --dwarf-start= -P= "
        "--private= -I=list --include=list --plugin=exec --demangle --visualize-jumps --unicode= -E= --endian= "
        "--dwarf",
        handler=_binutils,
    ),
    "addr2line": program("text*", "-e=read --exe=read -j= --section= -b= --target= -C", handler=_binutils),
    "md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum b3sum cksum sum shasum md5 xxhsum "
    "xxh64sum crc32 sha3sum": program("read*", "-a= --algorithm= -l= --length= -s= -c!named --check!named -f!named"),
    "base64 base32 basenc": program(
        "read*", "-w= --wrap= -d -D --decode -i=read -o=write --input=read --output=write -b="
    ),
    "iconv": program("read*", "-f= -t= -o=write --output=write --from-code= --to-code="),
    "dos2unix unix2dos": program("write*", "-c= -n"),
    "recode": program("text write*"),
    # compute
    "seq": program("text*", "-s= -f= -w --separator= --format="),
    "bc": program("read*", "-l -q -i -e= -f=read"),
    "dc": program("text*", "", "execute"),
    "units": program("text*", "-f=read --file=read -L=write --log=write -o= -H=write --history=write"),
    "factor numfmt expr primes jot": program(
        "text*", "-f=read --file=read -e= --from= --to= --field= -d= --format= --suffix= --padding= --delimiter="
    ),
    "yes": program("text*"),
    "cal ncal": program("text*", "-m= -d= -A= -B= -y -3 -j"),
    "figlet toilet lolcat fortune": program("maybe*", "-f=read -d=read"),
    "cowsay cowthink": program("text*", "-f=exec -e= -T= -W="),
    "aspell hunspell ispell": program("unknown*", "", "unknown"),
    "pygmentize highlight glow mdcat": program("unknown*", "-o=write", "unknown"),
    "scc": program("list*", "-o=write --output=write -f= --format= -w -p"),
    "tokei": program(
        "list*",
        "--list-file=read --out=write --report-file=write --output= -o= --exclude-dir= -e= -t= --include-lang=",
        "",
    ),
    "envsubst": program("text*"),
    "gettext ngettext": program("text*", "-d=list --domain=list"),
    "pdftotext": program("read write", "-f= -l= -r="),
    "pdfinfo": program("read*", "-f= -l= -opw= -upw= -enc=", single=True),
    "identify": program("read*", "-format= -write=write -define= -log= -debug=", handler=_media, single=True),
    "ffprobe": program(
        "read*",
        "-show_entries= -of= -v= -loglevel= -print_format= -output_format= -select_streams= -i=read -f=!unknown "
        "-o=write -report!change -dump_attachment=write -stats_file=write",
        handler=_media,
        single=True,
    ),
    "mediainfo": program(
        "read*",
        "--Output=maybe --Inform=maybe --Full -f --Help --Version --Info-Parameters --Language=maybe",
        handler=_media,
        closed=True,
    ),
    "more most pg": program("read*", "-n= --lines= +", handler=_less),
    "less": program(
        "read*",
        "-p= -P= -j= -x= -z= -b= -h= -y= -D= -t= -T=read -k=exec --lesskey-file=exec --lesskey-content=exec "
        "-o=write -O=write --log-file=write --lesskey-src=exec +",
        handler=_less,
    ),
}
