package main

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"slices"
	"strings"
)

// A manifest, as far as it says who may do what.
type manifest struct {
	Packages map[string]struct{ SecurityVersion *uint64 }
	Marbles  map[string]struct{}
	Secrets  map[string]map[string]any
	Users    map[string]struct {
		Certificate string
		Roles       []string
	}
	Roles map[string]struct {
		ResourceType           string
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

// readManifest returns the manifest in raw, with the coordinator's rules for users, roles and thresholds.
func readManifest(raw []byte) *manifest {
	document := readDocument(raw)
	document.requireForm()
	var read manifest
	require(json.Unmarshal(raw, &read) == nil, "history", "an object is no manifest")
	read.requireUsers()
	read.requireRoles()
	read.requireThresholds()
	return &read
}

// readUpdate returns a package update, which has versions alone.
func readUpdate(raw []byte) *manifest {
	document := readDocument(raw)
	document.requireOnce(true)
	for _, section := range document.members {
		require(strings.EqualFold(section.name, "packages"), "history", "more than packages")
		section.value.requireOnce(false)
		for _, each := range section.value.members {
			only := len(each.value.members) == 1 &&
				strings.EqualFold(each.value.members[0].name, "securityversion")
			require(only, "history", "more than a version, or none")
		}
	}
	var read manifest
	require(json.Unmarshal(raw, &read) == nil, "history", "an object is no package update")
	return &read
}

func (m *manifest) requireUsers() {
	owners := map[string]bool{}
	for _, user := range m.Users {
		block, _ := pem.Decode([]byte(user.Certificate))
		require(block != nil && block.Type == "CERTIFICATE", "history", "a user without a certificate")
		_, err := x509.ParseCertificate(block.Bytes)
		require(err == nil, "history", "a certificate of a user cannot be read")
		require(!owners[string(block.Bytes)], "history", "two users with one certificate")
		owners[string(block.Bytes)] = true
		for _, role := range user.Roles {
			_, there := m.Roles[role]
			require(there, "history", "a role that does not exist")
		}
	}
}

var actionsOn = map[string][]string{
	"Packages": {"updatesecurityversion"},
	"Secrets":  {"readsecret", "writesecret"},
	"Manifest": {"updatemanifest"},
	"Marbles":  {"revokeworkload"},
}

func (m *manifest) requireRoles() {
	for _, role := range m.Roles {
		actions, there := actionsOn[role.ResourceType]
		require(there, "history", "a role of an unknown type")
		for _, each := range role.Actions {
			require(slices.Contains(actions, strings.ToLower(each)), "history", "an unknown action")
		}
		for _, each := range role.ResourceNames {
			_, isPackage := m.Packages[each]
			secret, isSecret := m.Secrets[each]
			_, isMarble := m.Marbles[each]
			known := role.ResourceType == "Packages" && isPackage ||
				role.ResourceType == "Secrets" && isSecret || role.ResourceType == "Marbles" && isMarble
			require(known, "history", "a role about something that does not exist")
			if isSecret && role.ResourceType == "Secrets" {
				requireSecretRole(secret, role.Actions)
			}
		}
	}
}

func requireSecretRole(secret map[string]any, actions []string) {
	field := func(named string) bool {
		for each, value := range secret {
			if strings.EqualFold(each, named) {
				return value == true
			}
		}
		return false
	}
	if field("UserDefined") {
		return
	}
	for _, each := range actions {
		require(!strings.EqualFold(each, "WriteSecret"), "history", "a generated secret is written")
		require(field("Shared") || !strings.EqualFold(each, "ReadSecret"), "history", "a private secret is read")
	}
}

func (m *manifest) requireThresholds() {
	var users uint64
	for each := range m.Users {
		if _, has := m.resources(inLeaf(each), "UpdateManifest"); has {
			users++
		}
	}
	require(m.Config.UpdateThreshold <= users, "history", "an impossible threshold")
	holders := uint64(len(m.RecoveryKeys))
	threshold := m.Config.RecoveryThreshold
	require(threshold <= holders && threshold != 1, "history", "an impossible threshold of recovery")
	keys := map[string]bool{}
	for _, each := range m.RecoveryKeys {
		block, _ := pem.Decode([]byte(each))
		require(block != nil && block.Type == "PUBLIC KEY", "history", "a holder without a key")
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		known, is := key.(*rsa.PublicKey)
		require(err == nil && is, "history", "a recovery key cannot be read")
		require(!keys[known.N.String()], "history", "two holders with one key")
		keys[known.N.String()] = true
	}
}

// hasValues tells whether a manifest gives a secret its first value: then no log publishes it.
func (m *manifest) hasValues() bool {
	for _, secret := range m.Secrets {
		for each, value := range secret {
			given := strings.EqualFold(each, "Private") || strings.EqualFold(each, "Public")
			if given && value != nil {
				return true
			}
		}
	}
	return false
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
			matches := func(one string) bool { return strings.EqualFold(one, action) }
			if slices.ContainsFunc(m.Roles[role].Actions, matches) {
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
