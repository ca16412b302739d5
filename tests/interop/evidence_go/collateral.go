package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// A bundle of collateral: certificates, revocation lists and signed documents of the vendor.
type bundle struct {
	PckCrlChain  string `json:"pck_crl_issuer_chain"`
	RootCrl      string `json:"root_ca_crl"`
	PckCrl       string `json:"pck_crl"`
	TcbChain     string `json:"tcb_info_issuer_chain"`
	Tcb          string `json:"tcb_info"`
	TcbSignature string `json:"tcb_info_signature"`
	QeChain      string `json:"qe_identity_issuer_chain"`
	Qe           string `json:"qe_identity"`
	QeSignature  string `json:"qe_identity_signature"`
	judge        *judge
	vendor       *x509.Certificate
	revoked      map[string]bool // serial numbers that the root's list has
	pckAuthority *x509.Certificate
	pckList      *x509.RevocationList
}

type document struct {
	ID         string    `json:"id"`
	Version    int       `json:"version"`
	Issued     time.Time `json:"issueDate"`
	Next       time.Time `json:"nextUpdate"`
	Evaluation uint64    `json:"tcbEvaluationDataNumber"`
}

type tcbInfo struct {
	document
	Fmspc  string     `json:"fmspc"`
	PceID  string     `json:"pceId"`
	Type   int        `json:"tcbType"`
	Levels []tcbLevel `json:"tcbLevels"`
}

type tcbLevel struct {
	Tcb struct {
		Components []struct {
			Svn int `json:"svn"`
		} `json:"sgxtcbcomponents"`
		Pce int `json:"pcesvn"`
	} `json:"tcb"`
	Status     string   `json:"tcbStatus"`
	Advisories []string `json:"advisoryIDs"`
}

// numbers returns the components in their order, then the PCESVN.
func (l tcbLevel) numbers() []int {
	found := []int{}
	for _, each := range l.Tcb.Components {
		found = append(found, each.Svn)
	}
	return append(found, l.Tcb.Pce)
}

type qeIdentity struct {
	document
	Misc           string `json:"miscselect"`
	MiscMask       string `json:"miscselectMask"`
	Attributes     string `json:"attributes"`
	AttributesMask string `json:"attributesMask"`
	Signer         string `json:"mrsigner"`
	Product        uint16 `json:"isvprodid"`
	Levels         []struct {
		Tcb struct {
			Svn uint16 `json:"isvsvn"`
		} `json:"tcb"`
		Status     string   `json:"tcbStatus"`
		Advisories []string `json:"advisoryIDs"`
	} `json:"tcbLevels"`
}

// A judge says at which step and at which time collateral is judged, and which states are accepted.
type judge struct {
	step string
	at   time.Time
	code identity
}

func (j *judge) require(holds bool, why string) { require(holds, j.step, "%s", why) }

// within refuses what is not valid yet, and what has expired: then an earlier time may be tried.
func (j *judge) within(from, to time.Time) {
	at := j.at.Truncate(time.Second)
	if at.After(to) {
		panic(expired{refusal{j.step, "the collateral has expired"}})
	}
	j.require(!at.Before(from), "the collateral is not valid yet")
}

// readBundle returns the collateral in raw, every part of which leads to the vendor's root.
func readBundle(raw []byte, vendor *x509.Certificate, j *judge) *bundle {
	read := &bundle{judge: j, vendor: vendor, revoked: map[string]bool{}}
	j.require(json.Unmarshal(raw, read) == nil, "the collateral cannot be read")
	rootList := read.list(read.RootCrl, vendor)
	for _, each := range rootList.RevokedCertificateEntries {
		read.revoked[each.SerialNumber.String()] = true
	}
	read.pckAuthority = read.chain(read.PckCrlChain)
	read.pckList = read.list(read.PckCrl, read.pckAuthority)
	return read
}

// chain returns the first of two certificates; the second is the vendor's root.
func (b *bundle) chain(text string) *x509.Certificate {
	chain := certificates([]byte(text), b.judge.step)
	b.judge.require(len(chain) == 2 && bytes.Equal(chain[1].Raw, b.vendor.Raw), "another vendor")
	b.judge.require(chain[0].CheckSignatureFrom(chain[1]) == nil, "a chain is not signed")
	for _, each := range chain {
		b.judge.require(!b.revoked[each.SerialNumber.String()], "a signer or the root is revoked")
		b.judge.within(each.NotBefore, each.NotAfter)
	}
	return chain[0]
}

func (b *bundle) list(text string, issuer *x509.Certificate) *x509.RevocationList {
	raw, err := hex.DecodeString(text)
	b.judge.require(err == nil, "a revocation list is not hex")
	list, err := x509.ParseRevocationList(raw)
	b.judge.require(err == nil && list.CheckSignatureFrom(issuer) == nil, "a revocation list is not signed")
	b.judge.within(list.ThisUpdate, list.NextUpdate.Add(-time.Second)) // the end itself is too late
	return list
}

func (b *bundle) document(text, signature, chain string, to any, common *document) {
	signer := b.chain(chain)
	key, is := signer.PublicKey.(*ecdsa.PublicKey)
	made, err := hex.DecodeString(signature)
	good := is && err == nil && len(made) == 64 && raw(key, made, []byte(text))
	b.judge.require(good, "a document of the collateral is not signed")
	b.judge.require(json.Unmarshal([]byte(text), to) == nil, "a document of the collateral cannot be read")
	b.judge.within(common.Issued, common.Next)
}

// requireQuote returns if the platform with this chain, and its quoting enclave, are in an accepted state.
func (b *bundle) requireQuote(chain []*x509.Certificate, enclave report) {
	j := b.judge
	for _, each := range chain {
		j.within(each.NotBefore, each.NotAfter)
	}
	j.require(bytes.Equal(chain[1].Raw, b.pckAuthority.Raw) ||
		bytes.Equal(chain[1].RawSubjectPublicKeyInfo, b.pckAuthority.RawSubjectPublicKeyInfo),
		"the revocation list is of another authority")
	j.require(!b.revoked[chain[1].SerialNumber.String()], "the authority of the platform is revoked")
	for _, each := range b.pckList.RevokedCertificateEntries {
		j.require(each.SerialNumber.Cmp(chain[0].SerialNumber) != 0, "the platform is revoked")
	}
	var tcb tcbInfo
	b.document(b.Tcb, b.TcbSignature, b.TcbChain, &tcb, &tcb.document)
	var qe qeIdentity
	b.document(b.Qe, b.QeSignature, b.QeChain, &qe, &qe.document)
	known := tcb.ID == "SGX" && tcb.Version == 3 && tcb.Type == 0 && qe.ID == "QE" && qe.Version == 2
	j.require(known && tcb.Evaluation == qe.Evaluation, "the collateral is of another kind")
	own := readPck(chain[0], j)
	same := strings.EqualFold(tcb.Fmspc, hex.EncodeToString(own.fmspc)) &&
		strings.EqualFold(tcb.PceID, hex.EncodeToString(own.pce))
	j.require(same, "the collateral is of another platform")
	status, advisories := tcb.level(own, j)
	qeStatus, more := qe.level(enclave, j)
	j.accept(merged(status, qeStatus), append(advisories, more...))
}

func (t *tcbInfo) level(own pck, j *judge) (string, []string) {
	slices.SortStableFunc(t.Levels, func(one, other tcbLevel) int {
		return slices.Compare(other.numbers(), one.numbers())
	})
	for _, level := range t.Levels {
		enough := len(level.Tcb.Components) == 16 && own.pceSvn >= level.Tcb.Pce
		for i, each := range level.Tcb.Components {
			enough = enough && own.svn[i] >= each.Svn
		}
		if enough {
			return level.Status, level.Advisories
		}
	}
	j.require(false, "the platform has no TCB level")
	return "", nil
}

func (q *qeIdentity) level(enclave report, j *judge) (string, []string) {
	same := hex.EncodeToString(enclave[128:160]) == strings.ToLower(q.Signer) &&
		enclave.product() == q.Product &&
		masked(enclave[16:20], q.Misc, q.MiscMask) && masked(enclave[48:64], q.Attributes, q.AttributesMask)
	j.require(same, "another quoting enclave")
	for _, level := range q.Levels {
		if enclave.version() >= level.Tcb.Svn {
			return level.Status, level.Advisories
		}
	}
	j.require(false, "the quoting enclave has no TCB level")
	return "", nil
}

func masked(found []byte, wanted, mask string) bool {
	value, err := hex.DecodeString(wanted)
	bits, err2 := hex.DecodeString(mask)
	if err != nil || err2 != nil || len(value) != len(found) || len(bits) != len(found) {
		return false
	}
	for i := range found {
		if found[i]&bits[i] != value[i] {
			return false
		}
	}
	return true
}

var states = []string{
	"UpToDate", "SWHardeningNeeded", "ConfigurationNeeded", "ConfigurationAndSWHardeningNeeded",
	"OutOfDate", "OutOfDateConfigurationNeeded",
}

// merged returns the state of a platform with that of its quoting enclave; "": no quote has it.
func merged(platform, enclave string) string {
	switch enclave {
	case "UpToDate", "ConfigurationNeeded", "OutOfDateConfigurationNeeded":
		return platform
	case "OutOfDate":
		if strings.Contains(platform, "Configuration") {
			return "OutOfDateConfigurationNeeded"
		}
		if slices.Contains(states, platform) {
			return "OutOfDate"
		}
	}
	return ""
}

func (j *judge) accept(status string, advisories []string) {
	accepted := j.code.AcceptedTCBStatuses
	if len(accepted) == 0 {
		accepted = []string{"SWHardeningNeeded"}
	}
	good := slices.Contains(states, status)
	j.require(good && (status == "UpToDate" || slices.Contains(accepted, status)), "the TCB status is not accepted")
	if status != "SWHardeningNeeded" || len(j.code.AcceptedAdvisories) == 0 {
		return
	}
	for _, each := range advisories {
		listed := slices.ContainsFunc(j.code.AcceptedAdvisories, func(one string) bool { return strings.EqualFold(one, each) })
		j.require(listed, "an advisory is not accepted")
	}
}

// The platform, as the extension of its PCK certificate has it.
type pck struct {
	fmspc, pce []byte
	svn        [16]int
	pceSvn     int
}

type extension struct {
	ID    asn1.ObjectIdentifier
	Value asn1.RawValue
}

var sgx = asn1.ObjectIdentifier{1, 2, 840, 113741, 1, 13, 1}

func readPck(certificate *x509.Certificate, j *judge) pck {
	var read pck
	for _, each := range certificate.Extensions {
		if !each.Id.Equal(sgx) {
			continue
		}
		var parts []extension
		_, err := asn1.Unmarshal(each.Value, &parts)
		j.require(err == nil, "the extension of the PCK certificate cannot be read")
		for _, part := range parts {
			read.take(part, j)
		}
	}
	j.require(len(read.fmspc) == 6 && len(read.pce) == 2, "the PCK certificate names no platform")
	return read
}

func (p *pck) take(part extension, j *judge) {
	switch part.ID[len(part.ID)-1] {
	case 2:
		var levels []extension
		_, err := asn1.Unmarshal(part.Value.FullBytes, &levels)
		j.require(err == nil, "the TCB of the PCK certificate cannot be read")
		for _, each := range levels {
			number := each.ID[len(each.ID)-1]
			if number > 17 || number < 1 {
				continue
			}
			var value int
			_, err := asn1.Unmarshal(each.Value.FullBytes, &value)
			j.require(err == nil, "the TCB of the PCK certificate cannot be read")
			if number == 17 {
				p.pceSvn = value
			} else {
				p.svn[number-1] = value
			}
		}
	case 3:
		p.pce = part.Value.Bytes
	case 4:
		p.fmspc = part.Value.Bytes
	}
}

// withoutHeader returns a quote without the 16 bytes that may be in front of it.
func withoutHeader(quote []byte, step string) []byte {
	if len(quote) < 16 || binary.LittleEndian.Uint32(quote) != 1 || binary.LittleEndian.Uint32(quote[4:]) != 2 {
		return quote
	}
	require(binary.LittleEndian.Uint64(quote[8:]) == uint64(len(quote)-16), step, "another form")
	return quote[16:]
}
