package main

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"
)

// A manifest, as far as it says who may do what.
type manifest struct {
	Packages map[string]struct{ SecurityVersion *uint64 }
	Secrets  map[string]any
	Users    map[string]struct {
		Certificate string
		Roles       []string
	}
	Roles map[string]struct {
		ResourceNames, Actions []string
	}
	RecoveryKeys map[string]string
	Config       struct {
		UpdateThreshold, RecoveryThreshold uint64
		Transparency                       struct {
			Origin          string
			SignedApprovals bool
		}
	}
}

func readManifest(raw []byte) *manifest {
	var read manifest
	require(json.Unmarshal(raw, &read) == nil, "history", "an object is no manifest")
	return &read
}

// inLeaf returns how a leaf writes a name that people chose.
func inLeaf(text string) string {
	if len(text) <= 512 && !strings.HasPrefix(text, "sha256:") {
		return text
	}
	return "sha256:" + name([]byte(text))
}

// certificate returns that of a user, which has this hash.
func (m *manifest) certificate(user, hash string) *x509.Certificate {
	for each, found := range m.Users {
		if inLeaf(each) != user {
			continue
		}
		block, _ := pem.Decode([]byte(found.Certificate))
		if block == nil || name(block.Bytes) != hash {
			continue
		}
		read, err := x509.ParseCertificate(block.Bytes)
		require(err == nil, "history", "a certificate cannot be read")
		return read
	}
	panic(refusal{"history", "no such user"})
}

// resources returns for what a user, as leaves write it, has an action; false if for nothing.
func (m *manifest) resources(user, action string) ([]string, bool) {
	var names []string
	has := false
	for each, found := range m.Users {
		if inLeaf(each) != user {
			continue
		}
		for _, role := range found.Roles {
			if slices.Contains(m.Roles[role].Actions, action) {
				names, has = append(names, m.Roles[role].ResourceNames...), true
			}
		}
	}
	for i := range names {
		names[i] = inLeaf(names[i])
	}
	return names, has
}

func (m *manifest) requireAllowed(user, action string, resources ...string) {
	names, has := m.resources(user, action)
	require(has, "history", "no permission %s", action)
	for _, each := range resources {
		require(slices.Contains(names, each), "history", "no permission %s for this", action)
	}
}

// needed returns how many users have to agree to an update.
func (m *manifest) needed() uint64 {
	if m.Config.UpdateThreshold > 0 {
		return m.Config.UpdateThreshold
	}
	var holders uint64
	for each := range m.Users {
		if _, has := m.resources(inLeaf(each), "UpdateManifest"); has {
			holders++
		}
	}
	return holders
}

func (m *manifest) recovery() (holders, threshold uint64) {
	holders = uint64(len(m.RecoveryKeys))
	if m.Config.RecoveryThreshold > 0 {
		return holders, m.Config.RecoveryThreshold
	}
	return holders, holders
}

func (m *manifest) isHolder(named string) bool {
	for each := range m.RecoveryKeys {
		if inLeaf(each) == named {
			return true
		}
	}
	return false
}

// version returns the security version that the manifest gives to a package, as leaves write it.
func (m *manifest) version(named string) uint64 {
	for each, found := range m.Packages {
		if inLeaf(each) == named && found.SecurityVersion != nil {
			return *found.SecurityVersion
		}
	}
	panic(refusal{"history", "a package without a security version"})
}
