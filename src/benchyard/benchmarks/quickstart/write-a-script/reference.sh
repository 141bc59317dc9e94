cat > top.sh <<'END'
export LC_ALL=C
tr -cs 'A-Za-z' '\n' | tr 'A-Z' 'a-z' | grep -v '^$' | sort | uniq -c | sort -k1,1nr -k2,2 |
    head -n "$1" | awk '{ print $1, $2 }'
END
