for day in monday tuesday wednesday; do
    tr -d ' ' < "$day.txt" | tr 'A-Z' 'a-z' | sort -u
done | sort | uniq -d | awk '{ print toupper(substr($0, 1, 1)) substr($0, 2) }' > guests.txt
