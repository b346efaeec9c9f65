module example.com/understudy

go 1.22
