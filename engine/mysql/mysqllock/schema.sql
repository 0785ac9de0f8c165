-- The line of one name, as procedures of MySQL 5.7, MariaDB 10.6 and later. Its
-- meaning is that of the Go package engine/queue; a test compares the two step by step.
--
-- Whoever decides anything about a name first locks its row of "names" and reads the
-- line in LATER statements. In READ COMMITTED each statement sees what was committed
-- when it began. One statement that locks and reads would read from before it waited
-- for the lock: it would miss the claim that the one it waited for has put there, and
-- two would hold. So order of tickets is order of commits.
--
-- Each procedure that is called is one transaction, and answers after its commit. No
-- client's round trip lies between lock and commit, and an answer that arrives is one
-- that was committed. Whom to ring for is a second answer: the caller calls "ring" when it
-- knows what its call did, since a KILL may take seconds or fail.
--
-- Times are microseconds since 1970 by this server. UTC_TIMESTAMP is when a statement
-- began, and in a procedure each statement has its own: the clock is read in a
-- statement after the one that waited for the row. SYSDATE would not stand still
-- either, but it is local time, in which an hour comes twice a year.
--
-- All of this may be run again, by hand or by a client: tables stay as they are, and
-- procedures are replaced where they are older, while others call them. MariaDB does that
-- in one step. MySQL drops and creates: for a moment a call finds none, and is made
-- again. A call that is under way goes on with its own text and calls what is new: so a
-- procedure that is called by others here keeps its meaning, or gets another name.
--
-- No transaction begins another one when it ends, whatever completion_type says.
--
-- Parameters and variables begin with a_ (asked for), l_ (the line, its row of
-- "names"), c_ (a claim): one that had the name of a column would hide it.

CREATE TABLE IF NOT EXISTS @names (
	name    VARBINARY(512) NOT NULL, -- bytes: no collation makes two names one
	last    BIGINT NOT NULL,         -- the highest ticket ever given out
	lim     INT    NOT NULL,         -- of the claims in line; means nothing when there are none
	upto    BIGINT NOT NULL,         -- who holds: every claim with a ticket up to this one
	used    BIGINT NOT NULL,         -- units of those who hold
	size    INT    NOT NULL,         -- claims in line
	soonest BIGINT NOT NULL,         -- no deadline in line is before it
	seen    BIGINT NOT NULL,         -- the clock when this row was last written
	moved   BIGINT NOT NULL,         -- the clock when somebody last came to hold
	PRIMARY KEY (name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC $$

CREATE TABLE IF NOT EXISTS @claims (
	name     VARBINARY(512) NOT NULL,
	ticket   BIGINT     NOT NULL,
	id       BINARY(16) NOT NULL, -- secret: whoever knows it may renew and leave the claim
	client   BINARY(12) NOT NULL, -- who gives it up when it ends
	owner    BLOB       NOT NULL, -- JSON, what the owner says of itself
	units    INT        NOT NULL,
	deadline BIGINT     NOT NULL, -- at most asked ahead of the clock
	asked    BIGINT     NOT NULL, -- the longest lifetime granted at once
	detached BOOLEAN    NOT NULL, -- outlives its client
	evicted  BOOLEAN    NOT NULL, -- marked: in line until its holder leaves or its deadline passes
	PRIMARY KEY (name, ticket),
	UNIQUE KEY (name, id) -- the name alone is in both: see decide
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC $$

-- One row, which comes last of all: the number of this layout, how far sweep has
-- come, and the highest ticket of a name it has forgotten, so that tickets rise over
-- that too.
CREATE TABLE IF NOT EXISTS @swept (
	layout INT NOT NULL PRIMARY KEY,
	upto   VARBINARY(512) NOT NULL,
	last   BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC $$

-- For people: SELECT * FROM the view. It shows no secret. Deadlines that have passed
-- are of claims that the next call of anybody removes.
CREATE OR REPLACE VIEW @line AS
	SELECT CONVERT(c.name USING utf8mb4) AS name, c.ticket, IF(c.ticket <= n.upto, 'held', 'waiting') AS state,
		c.units, n.lim AS `limit`, c.evicted, c.detached,
		'1970-01-01' + INTERVAL c.deadline MICROSECOND AS deadline_utc, CONVERT(c.owner USING utf8mb4) AS owner
	FROM @claims c JOIN @names n ON n.name = c.name $$

DROP PROCEDURE IF EXISTS /*!50700 @clock */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @clock(OUT t BIGINT) SQL SECURITY INVOKER
BEGIN
	SET t = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
END $$

-- Removes what has expired, and has nobody stay for longer than asked where the clock
-- stepped back, which moves every deadline away. That means reading the whole line,
-- so it is done when the totals say that there may be something to do; what they say
-- is counted anew then.
DROP PROCEDURE IF EXISTS /*!50700 @purge */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @purge(n VARBINARY(512), t BIGINT, l_upto BIGINT, INOUT l_used BIGINT, INOUT l_size INT, INOUT l_soonest BIGINT, INOUT l_seen BIGINT)
SQL SECURITY INVOKER
BEGIN
	IF t >= l_soonest OR t < l_seen THEN
		DELETE FROM @claims WHERE name = n AND deadline <= t;
		-- Nobody asks for more than a day: what says so was written by somebody else.
		UPDATE @claims SET deadline = t + LEAST(asked, 86400000000) WHERE name = n AND deadline > t + LEAST(asked, 86400000000);
		SELECT COUNT(*), COALESCE(SUM(IF(ticket <= l_upto, units, 0)), 0), COALESCE(MIN(deadline), 9223372036854775807)
			INTO l_size, l_used, l_soonest FROM @claims WHERE name = n;
	END IF;
	SET l_seen = t;
END $$

-- Lets the rule decide who holds, once what has expired is gone. bells gets the clients of
-- those that came to hold, as many as it has room for: see ring.
--
-- While a transaction is open that may still read former claims of a name, none is purged. A
-- look-up by tickets passes over them in the order of the tickets, and reads all of them in
-- that of the IDs. The optimizer takes both keys for equal, since few claims live. So each
-- statement that reads a range of tickets or changes one claim says which key.
DROP PROCEDURE IF EXISTS /*!50700 @decide */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @decide(n VARBINARY(512), l_lim INT, INOUT l_upto BIGINT, INOUT l_used BIGINT, INOUT bells VARBINARY(1200))
SQL SECURITY INVOKER
BEGIN
	DECLARE c_ticket BIGINT;
	DECLARE c_units INT;
	DECLARE c_client BINARY(12);
	next_in_line: LOOP
		SET c_ticket = NULL;
		SELECT ticket, units, client INTO c_ticket, c_units, c_client FROM @claims FORCE INDEX (PRIMARY) WHERE name = n AND ticket > l_upto ORDER BY ticket LIMIT 1;
		IF c_ticket IS NULL OR l_used + c_units > l_lim THEN
			LEAVE next_in_line;
		END IF;
		SET l_used = l_used + c_units, l_upto = c_ticket, bells = LEFT(CONCAT(bells, c_client), 1200);
	END LOOP;
END $$

-- Rings the doorbells of clients, once what they are to learn is committed. The doorbell of
-- a client is the connection that has the lock of that name: see bell. Which connection
-- that is and its end are one statement, and such a connection never does anything else. So
-- what is killed is a bell, or nothing: where the client has no bell, has it on another
-- server, or is of another user. Then it polls.
DROP PROCEDURE IF EXISTS /*!50700 @ring */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @ring(bells VARBINARY(1200)) SQL SECURITY INVOKER
BEGIN
	DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;
	WHILE bells <> '' DO
		KILL QUERY IS_USED_LOCK(CONCAT('leasehold ', LEFT(SHA2(LEFT(bells, 12), 224), 40)));
		SET bells = SUBSTRING(bells, 13);
	END WHILE;
END $$

-- Waits until somebody rings, or for a_seconds: the doorbell of one client. items has, for
-- each claim of it that waits, the length of the name in two bytes, the name and the ID.
-- Answers with the numbers, from 0 on, and the tickets of those that hold by now. It looks,
-- waits unless it found one, and looks again, in one call, and who rings does so after a
-- commit. So a claim that came to hold before the first look is found by that, and for one
-- that came later the ring ends this call, which is made again. It waits for a lock that a
-- second connection of the client has. '-': this connection is not the bell, which is
-- another one of a proxy's.
DROP PROCEDURE IF EXISTS /*!50700 @bell */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @bell(a_client BINARY(12), items LONGBLOB, a_seconds INT) SQL SECURITY INVOKER
BEGIN
	DECLARE pos, number, len INT;
	DECLARE c_ticket BIGINT;
	DECLARE answer LONGTEXT CHARACTER SET ascii DEFAULT '';
	DECLARE waited BOOLEAN DEFAULT FALSE;
	IF NOT IS_USED_LOCK(CONCAT('leasehold ', LEFT(SHA2(a_client, 224), 40))) <=> CONNECTION_ID() THEN
		SET answer = '-';
	END IF;
	looking: WHILE answer = '' DO
		SET pos = 1, number = 0;
		WHILE pos <= LENGTH(items) DO
			SET len = CONV(HEX(SUBSTRING(items, pos, 2)), 16, 10), c_ticket = NULL;
			SELECT c.ticket INTO c_ticket FROM @names l JOIN @claims c ON c.name = l.name
				WHERE l.name = SUBSTRING(items, pos + 2, len) AND c.id = SUBSTRING(items, pos + 2 + len, 16) AND c.ticket <= l.upto AND NOT c.evicted;
			IF c_ticket IS NOT NULL THEN
				SET answer = CONCAT(answer, number, ' ', c_ticket, ' ');
			END IF;
			SET pos = pos + 18 + len, number = number + 1;
		END WHILE;
		IF waited THEN
			LEAVE looking;
		ELSEIF answer = '' THEN
			-- All SLEEPs of a server share one mutex, and a KILL of one may keep that for two seconds.
			IF GET_LOCK(CONCAT('leasehold wait ', LEFT(SHA2(a_client, 224), 40)), a_seconds) THEN
				DO RELEASE_LOCK(CONCAT('leasehold wait ', LEFT(SHA2(a_client, 224), 40))); -- that connection has ended
			END IF;
			SET waited = TRUE;
		END IF;
	END WHILE;
	SELECT answer;
END $$

-- Writes the row of a name, which is locked. moved comes before upto: assignments are
-- made from left to right.
DROP PROCEDURE IF EXISTS /*!50700 @store */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @store(n VARBINARY(512), l_last BIGINT, l_lim INT, l_upto BIGINT, l_used BIGINT, l_size INT, l_soonest BIGINT, l_seen BIGINT)
SQL SECURITY INVOKER
BEGIN
	UPDATE @names SET moved = IF(upto = l_upto, moved, l_seen),
		last = l_last, lim = l_lim, upto = l_upto, used = l_used, size = l_size, soonest = l_soonest, seen = l_seen
		WHERE name = n;
END $$

-- What the owner of a claim is told, as numbers: state (1 waiting, 2 held, 3 gone),
-- contended, evicted, ticket, units, limit, what is left of its lifetime, how many
-- wait before it (24 are all), and for how long nobody came to hold; times in
-- microseconds.
--
-- With a lifetime it answers only for a claim that waits and needs nothing: which has
-- that much left, in a line in which nothing has expired. That needs no lock, since a
-- snapshot that says "waiting" was right when it was taken, and writes nothing. NULL:
-- no such claim.
DROP PROCEDURE IF EXISTS /*!50700 @say */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @say(n VARBINARY(512), cid BINARY(16), t BIGINT, a_life BIGINT, OUT reply VARCHAR(200) CHARACTER SET ascii)
SQL SECURITY INVOKER
BEGIN
	SET reply = NULL;
	SELECT CONCAT_WS(' ', IF(c.evicted, 3, IF(c.ticket <= l.upto, 2, 1)),
			(SELECT MAX(ticket) FROM @claims FORCE INDEX (PRIMARY) WHERE name = n) > GREATEST(c.ticket, l.upto),
			c.evicted, c.ticket, c.units, l.lim, IF(c.evicted, 0, c.deadline - t),
			(SELECT COUNT(*) FROM (SELECT ticket FROM @claims FORCE INDEX (PRIMARY) WHERE name = n AND ticket > (SELECT upto FROM @names WHERE name = n)
				ORDER BY ticket LIMIT 24) a WHERE a.ticket < c.ticket),
			GREATEST(t - l.moved, 0))
		INTO reply FROM @names l JOIN @claims c ON c.name = l.name
		WHERE l.name = n AND c.id = cid
			AND (a_life IS NULL OR c.ticket > l.upto AND NOT c.evicted AND c.deadline >= t + a_life AND t < l.soonest AND t >= l.seen);
END $$

-- Extends one claim and says what it is now. No deadline moves earlier. A claim that
-- waits is given an eighth more than asked for, so that most looks of who polls find
-- it with enough, and write nothing.
DROP PROCEDURE IF EXISTS /*!50700 @prolong */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @prolong(n VARBINARY(512), cid BINARY(16), a_life BIGINT, OUT reply VARCHAR(200) CHARACTER SET ascii, INOUT bells VARBINARY(1200))
SQL SECURITY INVOKER
this_claim: BEGIN
	DECLARE l_last, l_upto, l_used, l_soonest, l_seen, c_ticket, c_deadline, t BIGINT;
	DECLARE l_lim, l_size, c_units INT;
	DECLARE c_evicted BOOLEAN;
	SET reply = '3 0 0 0 0 0 0 0 0';
	SELECT last, lim, upto, used, size, soonest, seen INTO l_last, l_lim, l_upto, l_used, l_size, l_soonest, l_seen
		FROM @names WHERE name = n FOR UPDATE;
	IF l_last IS NULL THEN
		LEAVE this_claim;
	END IF;
	CALL @clock(t);
	SELECT ticket, units, deadline, evicted INTO c_ticket, c_units, c_deadline, c_evicted FROM @claims WHERE name = n AND id = cid AND deadline > t;
	IF NOT c_evicted THEN
		IF c_ticket > l_upto THEN
			SET a_life = LEAST(a_life + a_life DIV 8, 86400000000);
		END IF;
		SET c_deadline = GREATEST(c_deadline, t + a_life);
		UPDATE @claims FORCE INDEX (PRIMARY) SET deadline = GREATEST(deadline, t + a_life), asked = GREATEST(asked, a_life)
			WHERE name = n AND ticket = c_ticket;
	END IF;
	IF l_size = 1 AND c_ticket <= l_upto AND t >= l_seen THEN
		-- It holds and is alone, as most leases are: nothing else can have expired or be
		-- granted, and there is nothing to look up.
		CALL @store(n, l_last, l_lim, l_upto, l_used, l_size, c_deadline, t);
		SET reply = CONCAT_WS(' ', IF(c_evicted, 3, 2), 0, c_evicted, c_ticket, c_units, l_lim, IF(c_evicted, 0, c_deadline - t), 0, 0);
		LEAVE this_claim;
	END IF;
	IF t >= l_soonest OR t < l_seen THEN
		CALL @purge(n, t, l_upto, l_used, l_size, l_soonest, l_seen);
		CALL @decide(n, l_lim, l_upto, l_used, bells);
	END IF;
	CALL @store(n, l_last, l_lim, l_upto, l_used, l_size, l_soonest, t);
	IF c_ticket IS NOT NULL THEN
		CALL @say(n, cid, t, NULL, reply);
	ELSE -- it may be gone because somebody ended it: see evict
		SELECT CONCAT_WS(' ', 3, 0, 1, ticket, units, l_lim, 0, 0, 0) INTO reply FROM @claims
			WHERE name = CONCAT(x'00', UNHEX(SHA2(n, 256))) AND id = cid AND deadline > t;
	END IF;
END $$

-- Gives one claim up, held or waiting, and says in which state it was found: as it
-- was before this call. Settling first could only turn a claim nobody knew of into a
-- held one, for nothing.
DROP PROCEDURE IF EXISTS /*!50700 @give_up */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @give_up(n VARBINARY(512), cid BINARY(16), OUT reply VARCHAR(200) CHARACTER SET ascii, INOUT bells VARBINARY(1200))
SQL SECURITY INVOKER
this_claim: BEGIN
	DECLARE l_last, l_upto, l_used, l_soonest, l_seen, c_ticket, c_deadline, t BIGINT;
	DECLARE l_lim, l_size, c_units INT;
	DECLARE c_evicted BOOLEAN;
	SET reply = '3 0 0 0 0 0 0 0 0';
	SELECT last, lim, upto, used, size, soonest, seen INTO l_last, l_lim, l_upto, l_used, l_size, l_soonest, l_seen
		FROM @names WHERE name = n FOR UPDATE;
	IF l_last IS NULL THEN
		LEAVE this_claim;
	END IF;
	CALL @clock(t);
	SELECT ticket, units, deadline, evicted INTO c_ticket, c_units, c_deadline, c_evicted FROM @claims WHERE name = n AND id = cid;
	IF c_ticket IS NOT NULL THEN
		IF c_deadline > t THEN
			SET reply = CONCAT_WS(' ', IF(c_evicted, 3, IF(c_ticket <= l_upto, 2, 1)),
				l_size > 1 AND EXISTS (SELECT 1 FROM @claims FORCE INDEX (PRIMARY) WHERE name = n AND ticket > GREATEST(c_ticket, l_upto)),
				c_evicted, c_ticket, c_units, l_lim, 0, 0, 0);
		END IF;
		DELETE c FROM @claims c FORCE INDEX (PRIMARY) WHERE name = n AND ticket = c_ticket;
		SET l_size = l_size - 1, l_used = l_used - IF(c_ticket <= l_upto, c_units, 0);
		IF l_size = 0 THEN
			SET l_soonest = 9223372036854775807;
		END IF;
	END IF;
	IF l_size > 0 OR t < l_seen THEN
		CALL @purge(n, t, l_upto, l_used, l_size, l_soonest, l_seen);
		CALL @decide(n, l_lim, l_upto, l_used, bells);
	END IF;
	CALL @store(n, l_last, l_lim, l_upto, l_used, l_size, l_soonest, t);
END $$

-- Renews and leaves claims, in the order in which they come: by their names' bytes, so
-- that two batches do not wait for each other. items has, for each, the length of the
-- name in two bytes, the name, the ID, and the lifetime in eight bytes; none: it is
-- left. Answers are what "say" says, one after the other.
DROP PROCEDURE IF EXISTS /*!50700 @batch */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @batch(items LONGBLOB) SQL SECURITY INVOKER
BEGIN
	DECLARE pos INT DEFAULT 1;
	DECLARE len, l_size INT;
	DECLARE n VARBINARY(512);
	DECLARE cid BINARY(16);
	DECLARE a_life, t BIGINT;
	DECLARE reply VARCHAR(200) CHARACTER SET ascii;
	DECLARE answer LONGTEXT CHARACTER SET ascii DEFAULT '';
	DECLARE bells VARBINARY(1200) DEFAULT '';
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK AND NO CHAIN NO RELEASE; RESIGNAL; END;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION READ WRITE;
	WHILE pos <= LENGTH(items) DO
		SET len = CONV(HEX(SUBSTRING(items, pos, 2)), 16, 10);
		SET n = SUBSTRING(items, pos + 2, len), cid = SUBSTRING(items, pos + 2 + len, 16),
			a_life = CONV(HEX(SUBSTRING(items, pos + 18 + len, 8)), 16, 10), pos = pos + 26 + len;
		IF a_life = 0 THEN
			CALL @give_up(n, cid, reply, bells);
		ELSE
			-- Not in the IF itself: a query there locks the row, shared, and two that have it so
			-- and want to write wait for each other.
			SET reply = NULL, l_size = NULL;
			SELECT size INTO l_size FROM @names WHERE name = n;
			IF l_size > 1 THEN -- or it does not wait
				CALL @clock(t);
				CALL @say(n, cid, t, a_life, reply);
			END IF;
			IF reply IS NULL THEN
				CALL @prolong(n, cid, a_life, reply, bells);
			END IF;
		END IF;
		SET answer = CONCAT(answer, reply, ' ');
	END WHILE;
	COMMIT AND NO CHAIN NO RELEASE;
	SELECT answer;
	IF bells <> '' THEN
		SELECT bells;
	END IF;
END $$

-- Takes a place at the end of a line, or finds the one this ID already has. Answers
-- with what refuses it (0: nothing; 1: the line's limit is another; 2: too many are
-- in line; 3: tickets have run out), the limit or how many, and what "say" says.
DROP PROCEDURE IF EXISTS /*!50700 @join */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @join(n VARBINARY(512), cid BINARY(16), a_client BINARY(12), a_owner BLOB, a_units INT, a_lim INT, a_life BIGINT,
	a_nowait BOOLEAN, a_detached BOOLEAN, a_replaces BINARY(16))
SQL SECURITY INVOKER
BEGIN
	DECLARE l_last, l_upto, l_used, l_soonest, l_seen, c_ticket, t BIGINT;
	DECLARE l_lim, l_size, others, c_units INT;
	DECLARE refusal, have, tries INT DEFAULT 0;
	DECLARE reply VARCHAR(200) CHARACTER SET ascii DEFAULT '3 0 0 0 0 0 0 0 0';
	DECLARE bells VARBINARY(1200) DEFAULT '';
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK AND NO CHAIN NO RELEASE; RESIGNAL; END;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION READ WRITE;
	this_claim: BEGIN
		find: LOOP
			SELECT last, lim, upto, used, size, soonest, seen INTO l_last, l_lim, l_upto, l_used, l_size, l_soonest, l_seen
				FROM @names WHERE name = n FOR UPDATE;
			IF l_last IS NOT NULL THEN
				LEAVE find;
			END IF;
			SET tries = tries + 1;
			IF tries = 100 THEN
				SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1643, MESSAGE_TEXT = 'the row of a name does not stay';
			END IF;
			-- If the name was swept just now, the statement above waited for that, and
			-- this later one sees what its last ticket was. soonest 0: the first purge
			-- counts. It is one row, also where somebody has emptied "swept": none would
			-- make this a loop without an end. Of two that come first the second waits
			-- here, for the lock that it needs anyway: one that is shared, as INSERT IGNORE
			-- takes, would be held by all who wait, and each would then wait for the others
			-- to give it up.
			INSERT INTO @names SELECT n, COALESCE(MAX(last), 0), a_lim, 0, 0, 0, 0, 0, 0 FROM @swept ON DUPLICATE KEY UPDATE name = n;
		END LOOP;
		CALL @clock(t);

		-- A retry of a Join whose answer was lost. What it replaced is gone since the
		-- first arrival.
		IF l_size > 0 AND EXISTS (SELECT 1 FROM @claims WHERE name = n AND id = cid AND deadline > t) THEN
			CALL @prolong(n, cid, a_life, reply, bells);
			IF reply NOT LIKE '3 0 0 %' THEN
				LEAVE this_claim;
			END IF;
			-- prolong looks at the clock too, and that claim has ended since it was looked for.
			-- So it is made anew: the answer to a Join that waits is not that it is gone.
			SELECT last, lim, upto, used, size, soonest, seen INTO l_last, l_lim, l_upto, l_used, l_size, l_soonest, l_seen
				FROM @names WHERE name = n;
			CALL @clock(t);
			SET reply = '3 0 0 0 0 0 0 0 0';
		END IF;

		-- Every refusal comes before anything changes: it leaves nothing behind, and
		-- must not cost the caller the claim it replaces.
		IF t >= l_soonest THEN
			SELECT COUNT(*) INTO others FROM @claims WHERE name = n AND deadline > t AND NOT id <=> a_replaces;
		ELSE
			SET others = l_size - (a_replaces IS NOT NULL AND EXISTS (SELECT 1 FROM @claims WHERE name = n AND id = a_replaces));
		END IF;
		SET c_ticket = GREATEST(l_last + 1, t);
		IF others > 0 AND l_lim <> a_lim THEN
			SET refusal = 1, have = l_lim;
		ELSEIF others >= 10000 THEN
			SET refusal = 2, have = others;
		ELSEIF c_ticket > 9007199254740991 THEN
			SET refusal = 3;
		END IF;
		IF refusal > 0 THEN
			LEAVE this_claim;
		END IF;

		IF RAND() < 1 / 16 THEN
			CALL @sweep(n);
		END IF;
		CALL @purge(n, t, l_upto, l_used, l_size, l_soonest, l_seen);
		IF a_replaces IS NOT NULL THEN
			SELECT units * (ticket <= l_upto) INTO c_units FROM @claims WHERE name = n AND id = a_replaces;
			IF c_units IS NOT NULL THEN
				DELETE c FROM @claims c FORCE INDEX (name) WHERE name = n AND id = a_replaces;
				SET l_size = l_size - 1, l_used = l_used - c_units;
			END IF;
		END IF;
		IF a_nowait AND l_size > 0 THEN
			CALL @decide(n, l_lim, l_upto, l_used, bells);
			IF l_used + a_units > a_lim OR EXISTS (SELECT 1 FROM @claims FORCE INDEX (PRIMARY) WHERE name = n AND ticket > l_upto) THEN
				CALL @store(n, l_last, l_lim, l_upto, l_used, l_size, l_soonest, l_seen);
				LEAVE this_claim;
			END IF;
		END IF;

		INSERT INTO @claims VALUES (n, c_ticket, cid, a_client, a_owner, a_units, t + a_life, a_life, a_detached, FALSE);
		SET l_last = c_ticket, l_lim = a_lim, l_size = l_size + 1, l_soonest = LEAST(l_soonest, t + a_life);
		IF l_size = 1 THEN -- it is alone, so it holds: no need to look
			CALL @store(n, l_last, l_lim, c_ticket, a_units, l_size, t + a_life, l_seen);
			SET reply = CONCAT_WS(' ', 2, 0, 0, c_ticket, a_units, a_lim, a_life, 0, 0);
		ELSE
			CALL @decide(n, l_lim, l_upto, l_used, bells);
			IF c_ticket = l_upto AND LENGTH(bells) < 1200 THEN
				SET bells = LEFT(bells, LENGTH(bells) - 12); -- this claim came last of all, and the answer says so
			END IF;
			CALL @store(n, l_last, l_lim, l_upto, l_used, l_size, l_soonest, l_seen);
			CALL @say(n, cid, t, NULL, reply);
		END IF;
	END;
	COMMIT AND NO CHAIN NO RELEASE;
	SELECT CONCAT_WS(' ', refusal, have, reply) AS answer;
	IF bells <> '' THEN
		SELECT bells;
	END IF;
END $$

-- Carries out Joins and Leaves of many callers, each of another name, in one transaction that
-- waits for no row which somebody else has locked. It does what is simple: a Join of a name
-- that nobody is in line for, and a Leave of the only claim of its name. What it leaves out
-- is made alone. items has, for each, digits (3 for the length of the name, 5 for that of the
-- owner, 11 for the lifetime, 10 for the units, 10 for the limit, 1 for detached), and then the
-- name, the ID and the owner. With a lifetime of 0 it is a Leave. Answers with the number, from 0
-- on, of each that it carried out, and what "say" says.
--
-- The clock is read once. A row that somebody wrote later has a later "seen", and is left out.
DROP PROCEDURE IF EXISTS /*!50700 @share */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @share(a_client BINARY(12), items LONGBLOB) SQL SECURITY INVOKER
BEGIN
	DECLARE pos INT DEFAULT 1;
	DECLARE number, joins INT DEFAULT 0;
	DECLARE len, own, a_units, a_lim, c_state INT;
	DECLARE n VARBINARY(512);
	DECLARE cid BINARY(16);
	DECLARE a_life, c_ticket, t BIGINT;
	DECLARE answer LONGTEXT CHARACTER SET ascii DEFAULT '';
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK AND NO CHAIN NO RELEASE; RESIGNAL; END;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION READ WRITE;
	CALL @clock(t);
	WHILE pos <= LENGTH(items) DO
		SET len = SUBSTRING(items, pos, 3), own = SUBSTRING(items, pos + 3, 5), a_life = SUBSTRING(items, pos + 8, 11),
			n = SUBSTRING(items, pos + 40, len), cid = SUBSTRING(items, pos + 40 + len, 16), c_ticket = NULL;
		IF a_life > 0 THEN
			SELECT GREATEST(last + 1, t) INTO c_ticket FROM @names
				WHERE name = n AND size = 0 AND seen <= t FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */;
			IF c_ticket <= 9007199254740991 THEN
				SET a_units = SUBSTRING(items, pos + 19, 10), a_lim = SUBSTRING(items, pos + 29, 10), joins = joins + 1;
				INSERT INTO @claims VALUES (n, c_ticket, cid, a_client, SUBSTRING(items, pos + 56 + len, own), a_units, t + a_life, a_life, SUBSTRING(items, pos + 39, 1) = '1', FALSE);
				UPDATE @names SET last = c_ticket, lim = a_lim, upto = c_ticket, used = a_units, size = 1, soonest = t + a_life, seen = t, moved = t WHERE name = n;
				SET answer = CONCAT_WS(' ', answer, number, 2, 0, 0, c_ticket, a_units, a_lim, a_life, 0, 0);
			END IF;
		ELSE
			SELECT c.ticket, c.units, l.lim, IF(c.ticket <= l.upto, 2, 1) INTO c_ticket, a_units, a_lim, c_state FROM @names l JOIN @claims c ON c.name = l.name
				WHERE l.name = n AND l.size = 1 AND l.seen <= t AND c.id = cid AND c.deadline > t AND NOT c.evicted FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */;
			IF c_ticket IS NOT NULL THEN
				DELETE c FROM @claims c FORCE INDEX (PRIMARY) WHERE name = n AND ticket = c_ticket;
				UPDATE @names SET used = 0, size = 0, soonest = 9223372036854775807, seen = t WHERE name = n;
				SET answer = CONCAT_WS(' ', answer, number, c_state, 0, 0, c_ticket, a_units, a_lim, 0, 0, 0);
			END IF;
		END IF;
		SET pos = pos + 56 + len + own, number = number + 1;
	END WHILE;
	IF RAND() < joins / 16 THEN -- as often as in join
		CALL @sweep('');
	END IF;
	COMMIT AND NO CHAIN NO RELEASE;
	SELECT answer;
END $$

-- Ends the claim with that ticket: one that waits at once, one that holds by a mark,
-- or at once too if asked. 0: no such claim.
--
-- A claim that ends at once leaves the line, and its row stays until its deadline, for its
-- client: a renewal of it says that somebody ended it. The row gets a name that no line
-- has, as no name has a NUL. The next evict of a name deletes those that have expired, and
-- sweep deletes all of them with the name.
DROP PROCEDURE IF EXISTS /*!50700 @evict */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @evict(n VARBINARY(512), a_ticket BIGINT, a_now BOOLEAN) SQL SECURITY INVOKER
BEGIN
	DECLARE l_last, l_upto, l_used, l_soonest, l_seen, t BIGINT;
	DECLARE l_lim, l_size, c_units INT;
	DECLARE c_id BINARY(16);
	DECLARE ended VARBINARY(512) DEFAULT CONCAT(x'00', UNHEX(SHA2(n, 256)));
	DECLARE bells VARBINARY(1200) DEFAULT '';
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK AND NO CHAIN NO RELEASE; RESIGNAL; END;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION READ WRITE;
	SELECT last, lim, upto, used, size, soonest, seen INTO l_last, l_lim, l_upto, l_used, l_size, l_soonest, l_seen
		FROM @names WHERE name = n FOR UPDATE;
	IF l_last IS NOT NULL THEN
		CALL @clock(t);
		CALL @purge(n, t, l_upto, l_used, l_size, l_soonest, l_seen);
		CALL @decide(n, l_lim, l_upto, l_used, bells);
		SELECT units, id INTO c_units, c_id FROM @claims WHERE name = n AND ticket = a_ticket;
		IF c_units IS NOT NULL THEN
			IF a_now OR a_ticket > l_upto THEN
				DELETE FROM @claims WHERE name = ended AND (deadline <= t OR id = c_id); -- c_id: a former incarnation
				UPDATE @claims FORCE INDEX (PRIMARY) SET name = ended, evicted = TRUE WHERE name = n AND ticket = a_ticket;
				SET l_size = l_size - 1, l_used = l_used - IF(a_ticket <= l_upto, c_units, 0);
				CALL @decide(n, l_lim, l_upto, l_used, bells);
			ELSE
				UPDATE @claims FORCE INDEX (PRIMARY) SET evicted = TRUE WHERE name = n AND ticket = a_ticket;
			END IF;
		END IF;
		CALL @store(n, l_last, l_lim, l_upto, l_used, l_size, l_soonest, l_seen);
	END IF;
	COMMIT AND NO CHAIN NO RELEASE;
	SELECT c_units IS NOT NULL AS answer;
	IF bells <> '' THEN
		SELECT bells;
	END IF;
END $$

-- Takes the claims of a client out of up to a hundred lines, detached ones excepted,
-- and says of how many lines. It reads all claims: a client ends once.
DROP PROCEDURE IF EXISTS /*!50700 @depart */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @depart(a_client BINARY(12)) SQL SECURITY INVOKER
BEGIN
	DECLARE n VARBINARY(512);
	DECLARE l_last, l_upto, l_used, l_soonest, l_seen, t BIGINT;
	DECLARE l_lim, l_size INT;
	DECLARE left_lines INT DEFAULT 0;
	DECLARE bells VARBINARY(1200) DEFAULT '';
	DECLARE done BOOLEAN DEFAULT FALSE;
	DECLARE mine CURSOR FOR SELECT DISTINCT c.name FROM @claims c JOIN @names USING (name) WHERE client = a_client AND NOT detached ORDER BY c.name LIMIT 100;
	DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = TRUE;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK AND NO CHAIN NO RELEASE; RESIGNAL; END;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION READ WRITE;
	OPEN mine;
	next_line: LOOP
		SET done = FALSE;
		FETCH mine INTO n;
		IF done THEN
			LEAVE next_line;
		END IF;
		SET l_last = NULL;
		SELECT last, lim, upto, used, size, soonest, seen INTO l_last, l_lim, l_upto, l_used, l_size, l_soonest, l_seen
			FROM @names WHERE name = n FOR UPDATE;
		IF l_last IS NOT NULL THEN
			CALL @clock(t);
			DELETE FROM @claims WHERE name = n AND client = a_client AND NOT detached;
			SET l_soonest = 0, left_lines = left_lines + 1; -- what is left is counted anew
			CALL @purge(n, t, l_upto, l_used, l_size, l_soonest, l_seen);
			CALL @decide(n, l_lim, l_upto, l_used, bells);
			CALL @store(n, l_last, l_lim, l_upto, l_used, l_size, l_soonest, l_seen);
		END IF;
	END LOOP;
	CLOSE mine;
	COMMIT AND NO CHAIN NO RELEASE;
	SELECT left_lines AS answer;
	IF bells <> '' THEN
		SELECT bells;
	END IF;
END $$

-- Looks at the next 32 names and forgets those that nobody has used for a day: no TTL
-- is longer, so nobody is in line there. One Join in 16 does it, so for each two names
-- are looked at, and those that nobody uses never pile up. It skips what is locked, so
-- it has no part in a deadlock (MySQL 5.7 has no SKIP LOCKED: it waits there, and a
-- deadlock is tried again). The last tickets are stored in the step that forgets them.
-- The name that is being joined was unused until now, and stays.
DROP PROCEDURE IF EXISTS /*!50700 @sweep */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @sweep(a_name VARBINARY(512)) SQL SECURITY INVOKER
this_time: BEGIN
	DECLARE n, s_upto VARBINARY(512);
	DECLARE s_last, l_last, l_seen, t BIGINT;
	DECLARE looked INT DEFAULT 0;
	DECLARE done BOOLEAN DEFAULT FALSE;
	DECLARE next_names CURSOR FOR SELECT name, seen FROM @names WHERE name > s_upto ORDER BY name LIMIT 32;
	DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = TRUE;
	SELECT upto, last INTO s_upto, s_last FROM @swept FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */;
	IF s_last IS NULL THEN
		LEAVE this_time; -- somebody else is at it
	END IF;
	CALL @clock(t);
	SET t = t - 86400000000;
	OPEN next_names;
	next_name: LOOP
		SET done = FALSE;
		FETCH next_names INTO n, l_seen;
		IF done THEN
			LEAVE next_name;
		END IF;
		SET looked = looked + 1, s_upto = n, l_last = NULL;
		IF l_seen < t AND n <> a_name THEN
			SELECT last INTO l_last FROM @names WHERE name = n AND seen < t FOR UPDATE /*!80001 SKIP LOCKED */ /*M!100600 SKIP LOCKED */;
			IF l_last IS NOT NULL THEN
				DELETE FROM @claims WHERE name IN (n, CONCAT(x'00', UNHEX(SHA2(n, 256))));
				DELETE FROM @names WHERE name = n;
				SET s_last = GREATEST(s_last, l_last);
			END IF;
		END IF;
	END LOOP;
	CLOSE next_names;
	UPDATE @swept SET upto = IF(looked < 32, '', s_upto), last = s_last WHERE layout = 1; -- by its key: see try
END $$

-- Does all that the other procedures do to tables, and takes it back: an error says
-- what is missing. Its one row is found by the key, as sql_safe_updates wants it.
DROP PROCEDURE IF EXISTS /*!50700 @try */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @try() SQL SECURITY INVOKER
BEGIN
	DECLARE n VARBINARY(512) DEFAULT CONCAT(x'00', CONNECTION_ID()); -- no name has a NUL
	DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK AND NO CHAIN NO RELEASE; RESIGNAL; END;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION READ WRITE;
	INSERT INTO @names (name, last, lim, upto, used, size, soonest, seen, moved) VALUES (n, 0, 0, 0, 0, 0, 0, 0, 0);
	INSERT INTO @claims (name, ticket, id, client, owner, units, deadline, asked, detached, evicted) VALUES (n, 0, '', '', '', 0, 0, 0, FALSE, FALSE);
	CALL @store(n, 1, 1, 1, 1, 1, 1, 1);
	UPDATE @claims SET evicted = TRUE WHERE name = n;
	DELETE FROM @claims WHERE name = n;
	DELETE FROM @names WHERE name = n;
	UPDATE @swept SET upto = upto, last = last WHERE layout = 1;
	ROLLBACK AND NO CHAIN NO RELEASE;
	SELECT 1 AS answer;
END $$

-- Which edition the procedures are, and the oldest whose clients they serve. It comes after
-- those: where a connection is lost in between, who comes next replaces all of them.
DROP PROCEDURE IF EXISTS /*!50700 @edition */ /*M!100600 @none */ $$
CREATE /*M!100600 OR REPLACE */ PROCEDURE @edition() SQL SECURITY INVOKER
BEGIN
	SELECT '7 1' AS answer;
END $$

-- What older editions called within. A call of theirs that is under way is made again.
DROP PROCEDURE IF EXISTS @grant $$
DROP PROCEDURE IF EXISTS @renew $$
DROP PROCEDURE IF EXISTS @leave $$

INSERT INTO @swept SELECT 1, '', 0 FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM @swept) $$
