-- The highest exclusive token that each name has shown. Binary: a collation would make
-- one of names that differ in case, accents or spaces at their end.
CREATE TABLE IF NOT EXISTS leasehold_marks (
	name  VARBINARY(512) NOT NULL PRIMARY KEY,
	token BIGINT NOT NULL
) ENGINE = InnoDB;
