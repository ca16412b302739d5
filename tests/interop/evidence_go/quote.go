package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"math/big"
)

// A report is the body of an SGX quote that verifies: 384 bytes.
type report []byte

func (r report) is(code identity) bool {
	unique, signer := hex.EncodeToString(r[64:96]), hex.EncodeToString(r[128:160])
	return (code.UniqueID == "" || unique == code.UniqueID) &&
		(code.SignerID == "" || signer == code.SignerID) &&
		(code.ProductID == 0 || r.product() == code.ProductID) && r.version() >= code.SecurityVersion
}

func (r report) product() uint16 { return binary.LittleEndian.Uint16(r[256:]) }
func (r report) version() uint16 { return binary.LittleEndian.Uint16(r[258:]) }

func (r report) requireBound(first, second [32]byte, step string) {
	bound := bytes.Equal(r[320:352], first[:]) && bytes.Equal(r[352:384], second[:])
	require(bound, step, "the quote is about something else")
}

// readQuote returns the report in quote. The attestation key signed it; the quoting enclave's report
// has the hash of that key; the PCK signed this; its chain ends in the vendor's root. The collateral
// has every part of it in an accepted state, and in its time.
func readQuote(quote, collateral []byte, vendor *x509.Certificate, j *judge) report {
	step := j.step
	quote = withoutHeader(quote, step)
	const fixed = 48 + 384 + 4
	require(len(quote) > fixed+64+64+384+64+2, step, "the quote is too short")
	length := int(binary.LittleEndian.Uint32(quote[432:]))
	version, kind := binary.LittleEndian.Uint16(quote), binary.LittleEndian.Uint16(quote[2:])
	require(version == 3 && kind == 2 && length == len(quote)-fixed, step, "another form")
	signed, rest := quote[:432], quote[fixed:]
	signature, key := rest[:64], rest[64:128]
	enclave, enclaveSignature, rest := rest[128:512], rest[512:576], rest[576:]
	size := int(binary.LittleEndian.Uint16(rest))
	require(len(rest) >= 2+size+6, step, "another form")
	data, rest := rest[2:2+size], rest[2+size:]
	length = int(binary.LittleEndian.Uint32(rest[2:]))
	chained := binary.LittleEndian.Uint16(rest) == 5 && length == len(rest)-6
	require(chained, step, "no chain of certificates")
	chain := certificates(rest[6:], step)
	require(len(chain) == 3 && bytes.Equal(chain[2].Raw, vendor.Raw), step, "another vendor")
	issued := chain[0].CheckSignatureFrom(chain[1]) == nil && chain[1].CheckSignatureFrom(chain[2]) == nil
	require(issued, step, "the chain is not signed")
	pck, is := chain[0].PublicKey.(*ecdsa.PublicKey)
	require(is && raw(pck, enclaveSignature, enclave), step, "the quoting enclave is not signed")
	bound := sha256.Sum256(append(append([]byte{}, key...), data...))
	require(bytes.Equal(enclave[320:352], bound[:]), step, "another attestation key")
	attestation := &ecdsa.PublicKey{
		Curve: elliptic.P256(),
		X:     new(big.Int).SetBytes(key[:32]),
		Y:     new(big.Int).SetBytes(key[32:]),
	}
	require(attestation.Curve.IsOnCurve(attestation.X, attestation.Y), step, "no key")
	require(raw(attestation, signature, signed), step, "the report is not signed")
	readBundle(collateral, vendor, j).requireQuote(chain, report(enclave))
	found := report(quote[48:432])
	require(found[48]&2 == 0, step, "a debug enclave")
	return found
}

// certificates returns those in text, PEM, which has nothing else in it.
func certificates(text []byte, step string) []*x509.Certificate {
	text = bytes.TrimRight(text, "\x00")
	var chain []*x509.Certificate
	var again []byte
	for rest := text; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		read, err := x509.ParseCertificate(block.Bytes)
		require(err == nil, step, "a certificate cannot be read")
		chain = append(chain, read)
		again = append(again, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes})...)
	}
	require(bytes.Equal(again, text), step, "not a chain of certificates")
	return chain
}

// raw tells whether key made a signature of two numbers of 32 bytes.
func raw(key *ecdsa.PublicKey, signature, message []byte) bool {
	sum := sha256.Sum256(message)
	r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
	return ecdsa.Verify(key, sum[:], r, s)
}
