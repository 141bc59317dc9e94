# Only the answer is taken over from who is graded: nothing of theirs runs here.
answer=$(head -c 200 /home/user/answer.txt 2>/dev/null | tr -d '\0' | tr 'A-Z' 'a-z' | tr -s '[:space:]' ' ')
case "${answer# }" in
    lindhavn | "lindhavn " | lindhavn.) echo "right"; echo 1.0 ;;
    *) echo "not right"; echo 0.0 ;;
esac
