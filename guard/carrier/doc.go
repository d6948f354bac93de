// Package carrier knows how a token travels: the name of each carrier, and how
// a token is set, read and stripped there; and how a refusal travels back.
//
//	carrier                    set                   read           strip
//	environment FENCE_TOKEN    [SetEnv]              [EnvTokens]    [StripEnv]
//	Postgres    options        [SetOptions]          [OptionsTokens] [StripOptions]
//	            GUC            [SetStatement],       [GUCTokens]
//	                           [SetLocalStatement]
//	HTTP        Fence-Token    [SetHeader]           [HeaderTokens] [StripHeader]
//	S3          session token  [SetS3]               [S3Tokens]     [StripS3]
//
// Reading refuses and never guesses: no token is guard.ErrNoToken; a carrier
// given twice, or two carriers in one request that disagree, are
// guard.ErrMalformed, whichever would have been right.
package carrier
