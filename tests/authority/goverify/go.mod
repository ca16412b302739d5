module keyhouse.example/goverify

go 1.25
