// goverify prints whether Go accepts a chain for a host: "accepted", or the reason of the refusal.
// Arguments: PEM files of the root, of the intermediate CAs and of the leaf, and the host.
package main

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
)

func main() {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for pool, file := range map[*x509.CertPool]string{roots: os.Args[1], between: os.Args[2]} {
		certificates, err := read(file)
		if err != nil {
			fmt.Println(file, err)
			os.Exit(1)
		}
		for _, certificate := range certificates {
			pool.AddCert(certificate)
		}
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: os.Args[4]}
	leaf, err := read(os.Args[3]) // Go 1.27 refuses to read a leaf for ::ffff:10.1.2.3
	if err == nil {
		_, err = leaf[0].Verify(options)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("accepted")
}

func read(file string) (found []*x509.Certificate, err error) {
	rest, err := os.ReadFile(file)
	for err == nil && len(rest) > 0 {
		var block *pem.Block
		var certificate *x509.Certificate
		block, rest = pem.Decode(rest)
		certificate, err = x509.ParseCertificate(block.Bytes)
		found = append(found, certificate)
	}
	return found, err
}
