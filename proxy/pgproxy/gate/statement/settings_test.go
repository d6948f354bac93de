package statement

import "testing"

func TestConfigures(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"SELECT 1": false,
		"SELECT pg_catalog.set_config('search_path', '', false)":                                                 false,
		"select SET_CONFIG ( /* x */ 'role' , $1, true), set_config('a.b', 'c', true)":                           false,
		`SELECT pg_catalog."set_config"('search_path', '', false)`:                                               false,
		"SELECT set_config('search_path', '', false), set_config($1, $2, false)":                                 true,
		"SELECT set_config('fence.token', '', false)":                                                            true,
		"SELECT set_config('Fence.Token', '', false)":                                                            true,
		"SELECT set_config('fen' || 'ce.token', '', false)":                                                      true,
		"SELECT set_config('fen'\n'ce.token', '', false)":                                                        true,
		"SELECT set_config('search_path'::text, '', false)":                                                      true,
		"SELECT set_config(E'\\x66ence.token', '', false)":                                                       true,
		"SELECT set_config(setting_name => 'a', new_value => 'b', is_local => false)":                            true,
		"SELECT set_config('transaction_read_only', NULL, true)":                                                 true,
		"SELECT set_config(name, value, true) FROM settings":                                                     true,
		`SELECT U&"set\005fconfig"('fence.token', '', false)`:                                                    true,
		"SELECT set_config('fence.tokens', '', false), set_config('default_transaction_read_only', 'on', false)": false,
		"SELECT 'menu&x', 'set'":                                                                                 false,
		"SELECT 'set_config'":                                                                                    true,
	} {
		if got := configures(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
