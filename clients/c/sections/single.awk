# Joins parts of the library into one text: each of its headers stands in place of its first #include.
# awk -v kept=HEADER -f single.awk PART...: that header, and what it holds, stays outside.

function put(name,    line) {
    while ((getline line < name) > 0) each(line)
    close(name)
}

function each(line,    word) {
    if (line !~ /^#include "trimtab_/) {
        print line
        return
    }
    split(line, word, "\"")
    if (word[2] in seen) return
    seen[word[2]] = 1
    if (word[2] == kept) print line
    else put(word[2])
}

BEGIN {
    print "/* Trimtab\047s tuning sections; made of the files in clients/c/sections by `make single`. */"
    if (kept != "") seen["trimtab_tuner.h"] = 1
}

{
    each($0)
}
