package host

import "github.com/pipe-cartridge/pipe/bifaci"

// The ready-made policies. A cartridge decides by the permissions, never by the name.

// Online allows every reach.
func Online() bifaci.Policy {
	return bifaci.Policy{Name: "online", OurServices: true, Telemetry: true, ThirdParty: true}
}

// NoTelemetry allows everything but analytics.
func NoTelemetry() bifaci.Policy {
	return bifaci.Policy{Name: "no-telemetry", OurServices: true, ThirdParty: true}
}

// OurServices allows the host's own services only.
func OurServices() bifaci.Policy { return bifaci.Policy{Name: "our-services", OurServices: true} }

// Offline allows nothing.
func Offline() bifaci.Policy { return bifaci.Policy{Name: "offline"} }
