echo Lindhavn > /home/user/answer.txt
