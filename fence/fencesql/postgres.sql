-- The highest exclusive token that each name has shown. "C": two names are one only if
-- their bytes are.
CREATE TABLE IF NOT EXISTS leasehold_marks (
	name  text COLLATE "C" PRIMARY KEY,
	token bigint NOT NULL
);
