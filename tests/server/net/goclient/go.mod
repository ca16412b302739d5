module keyhouse.example/goclient

go 1.25
