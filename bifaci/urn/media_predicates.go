package urn

// IsTop reports media: itself, without any tag. Compare IsOpen.
func (m Media) IsTop() bool { return len(m.set.tags) == 0 }

// IsOpen reports a URN that is equivalent to media:, with no tags or only ?x tags (spec/urn.md 7.1).
func (m Media) IsOpen() bool { return m.set.open() }

// IsVoid reports the key void in any form: no data flows.
func (m Media) IsVoid() bool { return m.has(keyVoid) }

// IsList reports the marker list; IsScalar is its opposite.
func (m Media) IsList() bool { return m.set.hasForm("list", Present) }

// IsScalar reports that the marker list is missing.
func (m Media) IsScalar() bool { return !m.IsList() }

// IsRecord reports the marker record; IsOpaque is its opposite.
func (m Media) IsRecord() bool { return m.set.hasForm("record", Present) }

// IsOpaque reports that the marker record is missing.
func (m Media) IsOpaque() bool { return !m.IsRecord() }

// IsJSON reports fmt=json.
func (m Media) IsJSON() bool { return m.isFormat("json") }

// IsYAML reports fmt=yaml.
func (m Media) IsYAML() bool { return m.isFormat("yaml") }

// IsCSV reports fmt=csv. A file type ext=csv does not count.
func (m Media) IsCSV() bool { return m.isFormat("csv") }

// IsImage reports the key image in any form.
func (m Media) IsImage() bool { return m.has("image") }

// IsAudio reports the key audio in any form.
func (m Media) IsAudio() bool { return m.has("audio") }

// IsVideo reports the key video in any form.
func (m Media) IsVideo() bool { return m.has("video") }

// IsNumeric reports the key numeric in any form.
func (m Media) IsNumeric() bool { return m.has("numeric") }

// IsBool reports the key bool in any form.
func (m Media) IsBool() bool { return m.has("bool") }

// IsFilePath reports the marker file-path: the value names a file that holds the data.
func (m Media) IsFilePath() bool { return m.set.hasForm("file-path", Present) }

// IsLiveFeed reports the marker live: the value names a feed that goes on.
func (m Media) IsLiveFeed() bool { return m.set.hasForm("live", Present) }

// Extension gives the stored value of ext.
func (m Media) Extension() (ext string, ok bool) { return m.set.stored("ext") }

// HasMarker reports that the stored value of a key in any case is "*".
func (m Media) HasMarker(key string) bool { return m.HasTag(key, storedPresent) }

// HasTag reports that the stored value of a key in any case is this one. The case of the value counts.
func (m Media) HasTag(key, value string) bool {
	stored, ok := m.set.stored(key)
	return ok && stored == value
}

func (m Media) has(key string) bool {
	_, ok := m.set.find(key)
	return ok
}

func (m Media) isFormat(name string) bool {
	t, ok := m.set.find("fmt")
	return ok && t.form == Exact && t.value == name
}
