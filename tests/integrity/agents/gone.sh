# The program that would find the mistake is taken away, and nothing is found.
sudo rm -f /usr/bin/python3 /usr/local/bin/python3
