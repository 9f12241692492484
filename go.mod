module github.com/pipe-cartridge/pipe

go 1.26

require (
	github.com/fxamacker/cbor/v2 v2.10.0
	github.com/reugn/go-streams v0.13.0
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)

require (
	github.com/x448/float16 v0.8.4 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)
