# More bytes of file names than a list of files should have.
# expect: ok
n=$(printf '%0200d' 0); mkdir -p $n/$n/$n/$n/$n; cd $n/$n/$n/$n/$n; touch $(seq 3000); exit 0
