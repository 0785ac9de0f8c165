-- The line of one name, as functions of PostgreSQL 12 and later. Its meaning is
-- that of the Go package engine/queue; a test compares the two step by step.
--
-- Whoever decides anything about a name first locks its row of "names" and reads
-- the line in LATER statements. In READ COMMITTED each statement of a function
-- sees what was committed when it began. One statement that locks and reads would
-- read a snapshot from before it waited for the lock: it would miss the claim that
-- the one it waited for has put there, and two would hold. So order of tickets is
-- order of commits, and no client's round trip lies between lock and commit.
--
-- Times are microseconds since 1970 by this server, clock_timestamp(): now() is
-- when the transaction began, which may be before a long wait for the row.
--
-- All of this may be run again, by hand or by a client: tables stay as they are, and
-- functions are replaced where they are older, while others call them. A call that is
-- under way then goes on with its own text and calls what is new: so a function that is
-- called by others here keeps its meaning, or gets another name.
--
-- The name of a schema may have any character: a format (of RAISE, of format) names no
-- table, since a % there would be a parameter.

DO $$
DECLARE
	key text; -- constraints of older editions
	ids text;
BEGIN
	IF to_regprocedure('@layout()') IS NOT NULL THEN
		IF @layout() <> 1 THEN
			RAISE EXCEPTION 'these tables have layout %, and this is layout 1', @layout();
		END IF;
		IF to_regprocedure('@edition()') IS NOT NULL THEN
			IF (SELECT newest FROM @edition()) > 6 THEN
				RAISE EXCEPTION 'these functions are of edition %, which is newer than 6', (SELECT newest FROM @edition());
			END IF;
		END IF;
		-- Before edition 4 the key was the name, and before edition 6 a claim was found by its name first.
		SELECT conname INTO key FROM pg_constraint WHERE conrelid = '@names'::regclass AND contype = 'p'
			AND NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = conrelid AND attname = 'gen');
		SELECT conname INTO ids FROM pg_constraint WHERE conrelid = '@claims'::regclass AND contype = 'u';
		IF key IS NOT NULL OR ids IS NOT NULL THEN
			-- Every call of every client needs these tables, and waits behind who waits for one. So
			-- a dump, or whatever else reads one in an open transaction, is waited for for a moment.
			PERFORM set_config('lock_timeout', '500ms', true);
			BEGIN
				IF key IS NOT NULL THEN
					EXECUTE 'ALTER TABLE @names ADD COLUMN gen bigint NOT NULL DEFAULT 0, ADD COLUMN front bigint NOT NULL DEFAULT 0,
						DROP CONSTRAINT ' || quote_ident(key) || ', ADD PRIMARY KEY (name, gen)';
				END IF;
				IF ids IS NOT NULL THEN
					EXECUTE 'ALTER TABLE @claims DROP CONSTRAINT ' || quote_ident(ids);
					CREATE UNIQUE INDEX ON @claims (id, (name || ''));
				END IF;
			EXCEPTION WHEN lock_not_available THEN
				RAISE EXCEPTION USING ERRCODE = '55P03', MESSAGE = 'a transaction that uses @names or @claims is still open, perhaps a dump: run this again when it has ended';
			END;
		END IF;
		RETURN;
	END IF;

	CREATE TABLE @names (
		name    bytea  NOT NULL,    -- bytes: no collation makes two names one
		last    bigint NOT NULL,    -- the highest ticket ever given out
		lim     integer NOT NULL,   -- of the claims in line; means nothing when there are none
		upto    bigint NOT NULL,    -- who holds: every claim with a ticket up to this one
		used    bigint NOT NULL,    -- units of those who hold
		size    integer NOT NULL,   -- claims in line
		soonest bigint NOT NULL,    -- no deadline in line is before it
		seen    bigint NOT NULL,    -- the clock when this row was last written
		gen     bigint NOT NULL DEFAULT 0, -- see store; a name has one row
		front   bigint NOT NULL DEFAULT 0, -- no ticket in line is before it
		PRIMARY KEY (name, gen)
	) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);

	CREATE TABLE @claims (
		name     bytea   NOT NULL,
		ticket   bigint  NOT NULL,
		id       bytea   NOT NULL, -- secret: whoever knows it may renew and leave the claim
		client   text    NOT NULL, -- the channel of whom to tell; secret too
		owner    bytea   NOT NULL, -- JSON, what the owner says of itself
		units    integer NOT NULL,
		deadline bigint  NOT NULL, -- at most asked ahead of the clock
		asked    bigint  NOT NULL, -- the longest lifetime asked for at once
		detached boolean NOT NULL, -- outlives its client
		evicted  boolean NOT NULL, -- marked: in line until its holder leaves or its deadline passes
		told     boolean NOT NULL, -- the holder knows that somebody waits
		PRIMARY KEY (name, ticket)
	) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01);
	-- A look-up has one index that can serve it: that key by a name and tickets, and this one by
	-- an ID, with name || '' for the name. With both to choose from, the planner takes them for
	-- equal, since few rows live in either. But an entry of a former claim of a busy name
	-- stays while a transaction is open that may read it. Only the right index leads past those.
	CREATE UNIQUE INDEX ON @claims (id, (name || ''));

	-- One row: how far sweep has come, and the highest ticket of a name it has
	-- forgotten, so that tickets rise over that too.
	CREATE TABLE @swept (upto bytea NOT NULL, last bigint NOT NULL);
	INSERT INTO @swept VALUES ('', 0);

	-- What a call says of a claim. state: 1 waiting, 2 held, 3 gone. Times in
	-- microseconds.
	CREATE TYPE @reply AS (
		state integer, contended boolean, evicted boolean, ticket bigint, units integer, lim integer, ttl bigint, look bigint
	);
END $$;

-- For people: SELECT * FROM the view. It shows no secret. Deadlines that have
-- passed are of claims that the next call of anybody removes.
CREATE OR REPLACE VIEW @line AS
	SELECT convert_from(c.name, 'UTF8') AS name, c.ticket,
		CASE WHEN c.ticket <= n.upto THEN 'held' ELSE 'waiting' END AS state,
		c.units, n.lim AS "limit", c.evicted, c.detached,
		to_timestamp(c.deadline / 1e6) AS deadline, convert_from(c.owner, 'UTF8') AS owner
	FROM @claims c JOIN @names n ON n.name = c.name;

CREATE OR REPLACE FUNCTION @clock() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- Tells a client of a change of one of its claims. The name and the ID go as
-- hexadecimal digits: a message is text in the database's encoding. A procedure below
-- tells it after the commit.
CREATE OR REPLACE FUNCTION @tell(client text, note text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	notes text := current_setting('leasehold.notes', true);
BEGIN
	IF notes <> '' THEN
		notes := set_config('leasehold.notes', notes || client || E'\x1f' || note || E'\n', true);
	ELSE
		PERFORM pg_notify(client, note);
	END IF;
END $$;

-- Tells what was kept of a transaction that has committed. A transaction that notifies
-- locks the whole instance until it is stored: with what it tells of, the commits of all
-- hand-overs would be stored one after the other. This one is not waited for. If the server
-- ends in between, nobody is told, and the next in line finds out at its next look.
CREATE OR REPLACE FUNCTION @told(notes text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	now text := set_config('synchronous_commit', 'off', true);
BEGIN
	PERFORM pg_notify(split_part(x, E'\x1f', 1), split_part(x, E'\x1f', 2)) FROM unnest(string_to_array(notes, E'\n')) x WHERE x <> '';
EXCEPTION WHEN OTHERS THEN -- a client that says what is no channel: the call has been carried out
END $$;

CREATE OR REPLACE FUNCTION @note(l @names, c @claims, state integer, contended boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM @tell(c.client, concat_ws(' ', state, contended::integer, c.evicted::integer, c.ticket, c.units, l.lim,
		encode(c.id, 'hex'), encode(l.name, 'hex')));
END $$;

-- What every call makes sure of about its transaction; true. It is assigned, not
-- performed, and so are settings: an expression costs a tenth of a statement.
CREATE OR REPLACE FUNCTION @ready() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	practised text;
	now text;
BEGIN
	-- Else later statements would see what was committed before the wait.
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE EXCEPTION 'leasehold works in READ COMMITTED, and this transaction is %', upper(current_setting('transaction_isolation'))
			USING ERRCODE = 'LH001';
	END IF;
	-- A database that answers before it has stored may forget a grant, and one that
	-- answers before its replica has, where it is to wait for one.
	IF current_setting('synchronous_commit') IN ('off', 'local') THEN
		now := set_config('synchronous_commit', 'on', true);
	END IF;
	-- Statements this small are not worth compiling. All go by a key: a plan that was made
	-- when a table was small would read all of it once it has grown.
	IF current_setting('jit') = 'on' THEN
		now := set_config('jit', 'off', true);
	END IF;
	IF current_setting('enable_seqscan') = 'on' THEN
		now := set_config('enable_seqscan', 'off', true);
	END IF;
	-- In order of the key: a bitmap reads every former version of a row to find the newest.
	IF current_setting('enable_bitmapscan') = 'on' THEN
		now := set_config('enable_bitmapscan', 'off', true);
	END IF;
	-- By the tables' number, since a session may use those of several schemas.
	practised := 'leasehold.ready' || '@names'::regclass::oid;
	IF current_setting(practised, true) = '1' THEN
		RETURN true;
	END IF;
	now := set_config(practised, '1', false);
	IF @unlogged() > 0 THEN -- a session that comes first after a crash begins the wait
		now := @remembers()::text;
	END IF;
	PERFORM @practise();
	RETURN true;
END $$;

-- A session's first call of a function compiles it and plans its statements: tens of
-- milliseconds. With the name's row locked, everybody who wants the name would wait for
-- that, once for each client of a fleet that has just started. So a session first goes
-- through a hand-over of a name of its own, which nobody waits for, and undoes it; what
-- was to be told is not. What the caller wanted comes after. Its claims live for the second
-- that every database takes: see unlog.
CREATE OR REPLACE FUNCTION @practise() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	n bytea := sha256((random()::text || pg_backend_pid())::bytea);
BEGIN
	PERFORM @join(n, 'a', 'practise', '', 1, 1, 1000000, false, false, NULL);
	PERFORM @join(n, 'b', 'practise', '', 1, 1, 1000000, false, false, NULL);
	PERFORM @renewing(n, 'b', 1000000, true);
	PERFORM @leaving(n, 'a');
	RAISE EXCEPTION USING ERRCODE = 'LH002';
EXCEPTION WHEN SQLSTATE 'LH002' THEN
END $$;

-- The same for share, which most sessions never call; true.
CREATE OR REPLACE FUNCTION @shares() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	practised text := 'leasehold.shares' || '@names'::regclass::oid;
	n bytea := sha256((random()::text || pg_backend_pid())::bytea);
	now text;
BEGIN
	IF current_setting(practised, true) = '1' THEN
		RETURN true;
	END IF;
	now := set_config(practised, '1', false);
	BEGIN
		PERFORM @join(n, 'b', 'practise', '', 1, 1, 1000000, false, false, NULL);
		PERFORM @share(ARRAY[n, n], ARRAY['b', 'c']::bytea[], ARRAY[true, false], 'practise', ARRAY['', '']::bytea[], ARRAY[1, 1], ARRAY[1, 1],
			ARRAY[1000000, 1000000]::bigint[], ARRAY[false, false]);
		RAISE EXCEPTION USING ERRCODE = 'LH002';
	EXCEPTION WHEN SQLSTATE 'LH002' THEN
	END;
	RETURN true;
END $$;

-- The names row, locked; null if there is none. What it says is current: a
-- locked row is read anew after the wait.
CREATE OR REPLACE FUNCTION @open(n bytea) RETURNS @names LANGUAGE plpgsql AS $$
DECLARE
	l @names;
	ready boolean := @ready();
BEGIN
	SELECT * INTO l FROM @names WHERE name = n ORDER BY gen LIMIT 1 FOR UPDATE;
	RETURN l;
END $$;

-- While a transaction is open that may still read former versions of rows (a dump, a
-- replica that follows), none is cleared away, and a look-up by an unchanged key reads all
-- of them. So one write in 32 also changes the key, to one before all those that the name
-- had: the first entry of a name is the newest, and has few versions.
CREATE OR REPLACE FUNCTION @store(l @names) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE @names SET last = l.last, lim = l.lim, upto = l.upto, used = l.used, size = l.size, soonest = l.soonest, seen = l.seen,
		front = l.front, gen = gen - (random() < 1.0 / 32)::integer WHERE name = l.name AND gen = l.gen;
END $$;

-- Removes what has expired, and has nobody stay for longer than asked where the
-- clock stepped back, which moves every deadline away. That means reading the whole
-- line, so it is done when the totals say that there may be something to do; what
-- they say is counted anew then.
CREATE OR REPLACE FUNCTION @purge(INOUT l @names, t bigint) LANGUAGE plpgsql AS $$
BEGIN
	IF t >= l.soonest OR t < l.seen THEN
		DELETE FROM @claims WHERE name = l.name AND ticket >= l.front AND deadline <= t;
		-- Nobody asks for more than a day: what says so was written by somebody else.
		UPDATE @claims SET deadline = t + least(asked, 86400000000)
			WHERE name = l.name AND ticket >= l.front AND deadline > t + least(asked, 86400000000);
		SELECT count(*), coalesce(sum(units) FILTER (WHERE ticket <= l.upto), 0), coalesce(min(deadline), 9223372036854775807), coalesce(min(ticket), l.front)
			INTO l.size, l.used, l.soonest, l.front FROM @claims WHERE name = l.name AND ticket >= l.front;
	END IF;
	l.seen := t;
END $$;

-- The totals without a claim that was deleted.
CREATE OR REPLACE FUNCTION @without(INOUT l @names, c @claims) LANGUAGE plpgsql AS $$
BEGIN
	l.size := l.size - 1;
	IF l.size = 0 THEN
		l.soonest := 9223372036854775807;
	END IF;
	IF c.ticket <= l.upto THEN
		l.used := l.used - c.units;
	END IF;
END $$;

-- Somebody waits behind a claim with that ticket.
CREATE OR REPLACE FUNCTION @behind(l @names, t bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	RETURN EXISTS (SELECT FROM @claims WHERE name = l.name AND ticket > greatest(t, l.upto));
END $$;

-- Lets the rule decide who holds, once what has expired is gone. Everybody who
-- became held is told, except subject, whose reply says it.
CREATE OR REPLACE FUNCTION @grant(INOUT l @names, subject bytea) LANGUAGE plpgsql AS $$
DECLARE
	c @claims;
	before bigint := l.upto;
	waits boolean;
BEGIN
	LOOP
		SELECT * INTO c FROM @claims WHERE name = l.name AND ticket > l.upto ORDER BY ticket LIMIT 1;
		IF l.used = 0 AND FOUND THEN
			l.front := c.ticket;
		END IF;
		EXIT WHEN NOT FOUND OR l.used + c.units > l.lim;
		l.used := l.used + c.units;
		l.upto := c.ticket;
	END LOOP;
	waits := c.ticket IS NOT NULL;
	IF l.upto = before THEN
		RETURN;
	END IF;
	-- Only now is it known whether anybody still waits.
	FOR c IN UPDATE @claims SET told = waits
		WHERE name = l.name AND ticket > before AND ticket <= l.upto AND id <> subject RETURNING *
	LOOP
		PERFORM @note(l, c, 2, waits);
	END LOOP;
END $$;

-- Tells each holder once that it is contended.
CREATE OR REPLACE FUNCTION @tellholders(l @names) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	c @claims;
BEGIN
	FOR c IN UPDATE @claims SET told = true
		WHERE name = l.name AND ticket >= l.front AND ticket <= l.upto AND NOT told AND NOT evicted RETURNING *
	LOOP
		PERFORM @note(l, c, 2, true);
	END LOOP;
END $$;

-- What the owner of a claim is told.
CREATE OR REPLACE FUNCTION @answer(l @names, c @claims, t bigint, contended boolean) RETURNS @reply LANGUAGE plpgsql AS $$
DECLARE
	r @reply := (CASE WHEN c.evicted THEN 3 WHEN c.ticket <= l.upto THEN 2 ELSE 1 END, contended, c.evicted, c.ticket, c.units, l.lim,
		CASE WHEN c.evicted THEN 0 ELSE c.deadline - t END, 0);
BEGIN
	IF r.state = 1 AND NOT EXISTS (SELECT FROM @claims WHERE name = l.name AND ticket > l.upto AND ticket < c.ticket) THEN
		-- The first who waits: when expiry alone lets it hold.
		SELECT coalesce(min(deadline) - t, 0) INTO r.look FROM (
			SELECT deadline, sum(units) OVER (ORDER BY deadline, ticket) AS free FROM @claims
			WHERE name = l.name AND ticket >= l.front AND ticket <= l.upto
		) ahead WHERE l.used - free + c.units <= l.lim;
	END IF;
	RETURN r;
END $$;

-- The same under the lock of the name; it settles what the owner knows.
CREATE OR REPLACE FUNCTION @say(l @names, c @claims, t bigint) RETURNS @reply LANGUAGE plpgsql AS $$
DECLARE
	contended boolean := @behind(l, c.ticket);
BEGIN
	IF c.ticket <= l.upto AND c.told <> contended THEN
		UPDATE @claims SET told = contended WHERE name = l.name AND ticket = c.ticket;
	END IF;
	RETURN @answer(l, c, t, contended);
END $$;

-- UNLOGGED tables are empty after a crash, and on a replica that becomes the primary. Those
-- who held before may trust their leases for the longest TTL still. So a name that comes up
-- before that has passed is held by nobody in particular until then: a claim like any
-- other, which people see, wait behind, and may revoke where they know that no holder lives.

-- How long that is, in microseconds. 0: the tables are stored, and nothing is forgotten.
-- unlog replaces it.
DO $$
BEGIN
	IF to_regprocedure('@unlogged()') IS NULL THEN
		CREATE FUNCTION @unlogged() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT 0::bigint';
	END IF;
END $$;

-- Since when the tables remember: since the first call after they forgot. Each session's
-- first call asks, so the wait begins when the first client is back. Whoever reads nothing
-- waits for whoever stores it, and reads again.
CREATE OR REPLACE FUNCTION @remembers() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	t bigint;
BEGIN
	SELECT since INTO t FROM @memory;
	IF NOT FOUND THEN
		INSERT INTO @memory VALUES (@clock()) ON CONFLICT DO NOTHING;
		IF FOUND THEN
			INSERT INTO @swept SELECT '', 0 WHERE NOT EXISTS (SELECT FROM @swept);
		END IF;
		SELECT since INTO t FROM @memory;
	END IF;
	RETURN coalesce(t, @clock());
END $$;

-- A name whose row this transaction has made: who held it before a crash may hold it still.
CREATE OR REPLACE FUNCTION @forgotten(INOUT l @names, t bigint) LANGUAGE plpgsql AS $$
DECLARE
	free bigint := @remembers() + @unlogged();
BEGIN
	IF t >= free THEN
		RETURN;
	END IF;
	UPDATE @names SET last = greatest(last + 1, t), upto = greatest(last + 1, t), front = greatest(last + 1, t), used = lim, size = 1, soonest = free, seen = t
		WHERE name = l.name AND gen = l.gen RETURNING * INTO l;
	-- told: nobody listens on that channel.
	INSERT INTO @claims VALUES (l.name, l.last, substr(sha256((random()::text || random() || pg_backend_pid() || t)::bytea), 1, 16), 'leasehold',
		convert_to('{"label":"nobody: the database crashed, and who held this may trust it until then"}', 'UTF8'),
		l.lim, free, free - t, true, false, true);
END $$;

-- Has the tables lie in memory, from where a crash clears them, or stores them again (delay
-- 0). delay: no claim may live for longer, and after a crash nothing is granted for that
-- long. Run by their owner, at a time when few locks are held: it rewrites the tables.
CREATE OR REPLACE FUNCTION @unlog(delay interval) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	d bigint := extract(epoch FROM delay) * 1000000;
	t bigint;
	now text := set_config('lock_timeout', '500ms', true); -- as above
BEGIN
	IF d IS NULL OR d <> 0 AND (d < 1000000 OR d > 86400000000) THEN
		RAISE EXCEPTION 'the delay % is outside of 1 second to 1 day: give one in between, or 0 to store the tables again', delay;
	END IF;
	LOCK TABLE @names, @claims, @swept IN ACCESS EXCLUSIVE MODE;
	t := @clock();
	IF @unlogged() > 0 AND t < @remembers() + @unlogged() THEN
		RAISE EXCEPTION 'the tables forgot who holds less than % ago, and wait for that: run this again later', @unlogged() / 1000000 * interval '1 second';
	END IF;
	IF d > 0 AND EXISTS (SELECT FROM @claims WHERE deadline > t AND greatest(asked, deadline - t) > d) THEN
		RAISE EXCEPTION 'there are claims that live for longer than %: give a longer delay, or run this again without them', delay;
	END IF;
	ALTER TABLE @claims DROP CONSTRAINT IF EXISTS unlogged;
	IF d = 0 THEN
		ALTER TABLE @names SET LOGGED;
		ALTER TABLE @claims SET LOGGED;
		ALTER TABLE @swept SET LOGGED;
		DROP TABLE IF EXISTS @memory;
	ELSE
		ALTER TABLE @names SET UNLOGGED;
		ALTER TABLE @claims SET UNLOGGED;
		ALTER TABLE @swept SET UNLOGGED;
		-- Clients keep to it. Those that were there before do not know.
		EXECUTE 'ALTER TABLE @claims ADD CONSTRAINT unlogged CHECK (asked <= ' || d || ') NOT VALID';
		-- One row: since when, 0 where nothing was ever forgotten.
		CREATE UNLOGGED TABLE IF NOT EXISTS @memory (since bigint NOT NULL, one boolean PRIMARY KEY DEFAULT true CHECK (one));
		INSERT INTO @memory VALUES (0) ON CONFLICT DO NOTHING;
	END IF;
	EXECUTE 'CREATE OR REPLACE FUNCTION @unlogged() RETURNS bigint LANGUAGE sql STABLE AS ''SELECT ' || d || '::bigint''';
END $$;

-- Takes a place at the end of a line, or finds the one this ID already has.
-- refusal: '', or L with have = the line's limit, C with have = how many are in
-- line, T: tickets have run out.
CREATE OR REPLACE FUNCTION @join(
	n bytea, cid bytea, channel text, own bytea, want integer, wantlim integer, life bigint,
	nowait boolean, isdetached boolean, replaced bytea,
	OUT refusal text, OUT have integer, OUT reply @reply
) LANGUAGE plpgsql AS $$
DECLARE
	l @names;
	c @claims;
	t bigint;
	others integer;
	ticket bigint;
	made boolean := false;
	ready boolean := @ready();
BEGIN
	refusal := '';
	reply := (3, false, false, 0, 0, 0, 0, 0);
	t := @clock();
	-- A name that is free: its row alone says so, and is read anew where it had to be
	-- waited for.
	UPDATE @names SET last = greatest(last + 1, t), lim = wantlim, upto = greatest(last + 1, t), front = greatest(last + 1, t), used = want, size = 1,
		soonest = t + life, seen = t, gen = gen - (random() < 1.0 / 32)::integer
		WHERE name = n AND gen = (SELECT x.gen FROM @names x WHERE x.name = n ORDER BY x.gen LIMIT 1)
			AND size = 0 AND seen <= t AND soonest > t AND greatest(last, t) < 9007199254740991 RETURNING last INTO ticket;
	IF FOUND THEN
		INSERT INTO @claims VALUES (n, ticket, cid, channel, own, want, t + life, life, isdetached, false, false);
		IF random() < 1.0 / 16 THEN
			PERFORM @sweep(n);
		END IF;
		reply := (2, false, false, ticket, want, wantlim, life, 0);
		RETURN;
	END IF;
	FOR try IN 1..100 LOOP
		l := @open(n);
		EXIT WHEN l.name IS NOT NULL;
		IF try = 100 THEN -- a trigger or a policy takes it away again
			RAISE EXCEPTION USING ERRCODE = 'LH003', MESSAGE = 'the row of a name in @names does not stay';
		END IF;
		-- If the name was swept just now, open waited for that, and this later
		-- statement sees what its last ticket was. soonest 0: the first purge counts.
		INSERT INTO @names SELECT n, coalesce((SELECT max(last) FROM @swept), 0), wantlim, 0, 0, 0, 0, @clock()
			ON CONFLICT DO NOTHING;
		made := made OR FOUND;
	END LOOP;
	IF made AND l.gen < 0 THEN
		-- Others made the row since it was looked for, and have changed its key: so what
		-- was put there is a second one.
		DELETE FROM @names WHERE name = n AND gen = 0;
		made := false;
	END IF;
	t := @clock();
	IF made AND @unlogged() > 0 THEN
		l := @forgotten(l, t);
	END IF;

	-- A retry of a Join whose answer was lost. What it replaced is gone since the
	-- first arrival.
	SELECT * INTO c FROM @claims WHERE id = cid AND name || '' = n AND deadline > t;
	IF FOUND THEN
		reply := @renewed(l, c, life, t);
		RETURN;
	END IF;

	-- Every refusal comes before anything changes: it leaves nothing behind, and
	-- must not cost the caller the claim it replaces.
	IF t >= l.soonest THEN
		-- Whose renewal is under way has not expired, or cannot be renewed any more.
		PERFORM FROM @claims WHERE name = n AND @claims.ticket >= l.front AND deadline <= t FOR UPDATE;
		SELECT count(*) INTO others FROM @claims x WHERE name = n AND x.ticket >= l.front AND deadline > t AND id IS DISTINCT FROM replaced;
	ELSE
		others := l.size;
		IF replaced IS NOT NULL THEN
			others := others - (SELECT count(*) FROM @claims WHERE id = replaced AND name || '' = n);
		END IF;
	END IF;
	ticket := greatest(l.last + 1, t);
	refusal := CASE WHEN others > 0 AND l.lim <> wantlim THEN 'L' WHEN others >= 10000 THEN 'C'
		WHEN ticket > 9007199254740991 THEN 'T' ELSE '' END;
	IF refusal <> '' THEN
		have := CASE refusal WHEN 'L' THEN l.lim ELSE others END;
		RETURN;
	END IF;

	IF random() < 1.0 / 16 THEN
		PERFORM @sweep(n);
	END IF;
	l := @purge(l, t);
	IF replaced IS NOT NULL THEN
		DELETE FROM @claims WHERE id = replaced AND name || '' = n RETURNING * INTO c;
		IF FOUND THEN
			l := @without(l, c);
		END IF;
	END IF;
	IF nowait THEN
		l := @grant(l, cid);
		IF l.size > 0 AND (l.used + want > wantlim OR @behind(l, 0)) THEN
			PERFORM @tellholders(l);
			PERFORM @store(l);
			RETURN;
		END IF;
	END IF;

	INSERT INTO @claims VALUES (n, ticket, cid, channel, own, want, t + life, life, isdetached, false, false) RETURNING * INTO c;
	l.last := ticket;
	l.lim := wantlim;
	l.size := l.size + 1;
	l.soonest := least(l.soonest, c.deadline);
	IF l.size = 1 THEN -- it is alone, so it holds: no need to look
		l.used := want;
		l.upto := ticket;
		l.front := ticket;
		PERFORM @store(l);
		reply := (2, false, false, ticket, want, wantlim, life, 0);
		RETURN;
	END IF;
	l := @grant(l, cid);
	IF ticket > l.upto THEN
		PERFORM @tellholders(l);
	END IF;
	PERFORM @store(l);
	reply := @say(l, c, t);
END $$;

-- Extends one claim of a line that is locked, and says what it is now. No
-- deadline moves earlier.
CREATE OR REPLACE FUNCTION @renewed(l @names, c @claims, life bigint, t bigint) RETURNS @reply LANGUAGE plpgsql AS $$
BEGIN
	IF NOT c.evicted THEN
		UPDATE @claims SET deadline = greatest(deadline, t + life), asked = greatest(asked, life)
			WHERE name = l.name AND ticket = c.ticket RETURNING * INTO c;
	END IF;
	IF t >= l.soonest OR t < l.seen THEN
		l := @purge(l, t);
		l := @grant(l, c.id);
		SELECT * INTO c FROM @claims WHERE name = l.name AND ticket = c.ticket;
	END IF;
	l.seen := t;
	PERFORM @store(l);
	RETURN @say(l, c, t);
END $$;

-- Whether a renewal may do without the lock of the name: nothing may have expired,
-- the clock goes on, and the row was written within the last second. That is how
-- long a clock may step back unseen, and how old "seen" may be for sweep.
CREATE OR REPLACE FUNCTION @calm(l @names, t bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	RETURN t < l.soonest AND t >= l.seen AND t < l.seen + 1000000;
END $$;

-- Extends one claim, held or waiting, and says what it is now.
--
-- Many who wait renew again and again, and one after the other they would keep the
-- name locked all the time. So where nothing but a deadline is to be written, only
-- the claim is locked. That it holds or waits is then read in a later statement:
-- whoever lets it hold, tells it of others, marks or removes it writes its row or
-- that of the name, before (and is seen) or after (and tells it, or finds it
-- extended, since it looks at the row again once it has it). quick: the caller has
-- locked no other claim of this name, or two who each have one could wait for each
-- other.
CREATE OR REPLACE FUNCTION @renewing(n bytea, cid bytea, life bigint, quick boolean) RETURNS @reply LANGUAGE plpgsql AS $$
DECLARE
	l @names;
	c @claims;
	r @reply := (3, false, false, 0, 0, 0, 0, 0);
	t bigint;
BEGIN
	IF quick AND @ready() THEN
		SELECT * INTO l FROM @names WHERE name = n ORDER BY gen LIMIT 1;
		t := @clock();
		IF @calm(l, t) THEN
			SELECT * INTO c FROM @claims WHERE id = cid AND name || '' = n;
			-- What a holder was told is settled under the lock of the name.
			IF c.ticket > l.upto OR c.told = @behind(l, c.ticket) THEN
				UPDATE @claims SET deadline = greatest(deadline, t + life), asked = greatest(asked, life)
					WHERE name = n AND ticket = c.ticket AND id = cid AND deadline > t AND NOT evicted RETURNING * INTO c;
				IF FOUND THEN
					SELECT * INTO l FROM @names WHERE name = n ORDER BY gen LIMIT 1;
					RETURN @answer(l, c, t, CASE WHEN c.ticket <= l.upto THEN c.told ELSE @behind(l, c.ticket) END);
				END IF;
			END IF;
		END IF;
	END IF;
	l := @open(n);
	IF l.name IS NOT NULL THEN
		t := @clock();
		SELECT * INTO c FROM @claims WHERE id = cid AND name || '' = n AND deadline > t;
		IF FOUND THEN
			RETURN @renewed(l, c, life, t);
		ELSIF t >= l.soonest OR t < l.seen THEN
			l := @purge(l, t);
			l := @grant(l, cid);
			PERFORM @store(l);
		END IF;
		-- It may be gone because somebody ended it: see evict.
		SELECT * INTO c FROM @claims WHERE id = cid AND name || '' = '\x00'::bytea || sha256(n) AND deadline > t;
		IF FOUND THEN
			r := (3, false, true, c.ticket, c.units, l.lim, 0, 0);
		END IF;
	END IF;
	RETURN r;
END $$;

-- The same for several, in the order in which they were asked for. Names are locked
-- in the order of their bytes, so that two batches do not wait for each other.
CREATE OR REPLACE FUNCTION @renew(ns bytea[], ids bytea[], lives bigint[]) RETURNS TABLE (i integer, reply @reply) LANGUAGE plpgsql AS $$
DECLARE
	a record;
BEGIN
	FOR a IN
		SELECT x.ord, x.n, x.id, x.life, count(*) OVER (PARTITION BY x.n) = 1 AS alone
		FROM unnest(ns, ids, lives) WITH ORDINALITY AS x (n, id, life, ord) ORDER BY x.n, x.ord
	LOOP
		i := a.ord;
		reply := @renewing(a.n, a.id, a.life, a.alone);
		RETURN NEXT;
	END LOOP;
END $$;

-- Gives one claim up, held or waiting, and says in which state it was found.
CREATE OR REPLACE FUNCTION @leaving(n bytea, cid bytea) RETURNS @reply LANGUAGE plpgsql AS $$
DECLARE
	l @names;
	c @claims;
	r @reply := (3, false, false, 0, 0, 0, 0, 0);
	t bigint;
	ready boolean := @ready();
BEGIN
	t := @clock();
	-- The only claim: the last that holds, of one. The row of the name alone says so.
	UPDATE @names SET used = 0, size = 0, soonest = 9223372036854775807, seen = t, gen = gen - (random() < 1.0 / 32)::integer
		WHERE name = n AND gen = (SELECT x.gen FROM @names x WHERE x.name = n ORDER BY x.gen LIMIT 1)
			AND size = 1 AND seen <= t AND upto = (SELECT x.ticket FROM @claims x WHERE x.id = cid AND x.name || '' = n)
		RETURNING * INTO l;
	IF FOUND THEN
		DELETE FROM @claims WHERE id = cid AND name || '' = n RETURNING * INTO c;
		IF c.ticket IS DISTINCT FROM l.upto THEN
			RAISE EXCEPTION USING ERRCODE = 'LH003', MESSAGE = 'the claims of a name are not as its row in @names says';
		END IF;
		IF c.deadline > t THEN
			r := (CASE WHEN c.evicted THEN 3 ELSE 2 END, false, c.evicted, c.ticket, c.units, l.lim, 0, 0);
		END IF;
		RETURN r;
	END IF;
	l := @open(n);
	t := @clock();
	IF l.name IS NULL THEN
		RETURN r;
	END IF;
	DELETE FROM @claims WHERE id = cid AND name || '' = n RETURNING * INTO c;
	IF FOUND THEN
		IF c.deadline > t THEN
			-- As it was before this call: settling first could only turn a claim
			-- nobody was told of into a held one, for nothing.
			r := (CASE WHEN c.evicted THEN 3 WHEN c.ticket <= l.upto THEN 2 ELSE 1 END,
				@behind(l, c.ticket), c.evicted, c.ticket, c.units, l.lim, 0, 0);
		END IF;
		l := @without(l, c);
	END IF;
	IF l.size > 0 OR t < l.seen THEN
		l := @purge(l, t);
		l := @grant(l, cid);
	END IF;
	l.seen := t;
	PERFORM @store(l);
	RETURN r;
END $$;

-- The same for several, as renew does it.
CREATE OR REPLACE FUNCTION @leave(ns bytea[], ids bytea[]) RETURNS TABLE (i integer, reply @reply) LANGUAGE plpgsql AS $$
DECLARE
	a record;
BEGIN
	FOR a IN SELECT x.ord, x.n, x.id FROM unnest(ns, ids) WITH ORDINALITY AS x (n, id, ord) ORDER BY x.n, x.ord LOOP
		i := a.ord;
		reply := @leaving(a.n, a.id);
		RETURN NEXT;
	END LOOP;
END $$;

-- One Join, and one Leave, which commit before they tell others.
CREATE OR REPLACE PROCEDURE @joins(
	n bytea, cid bytea, channel text, own bytea, want integer, wantlim integer, life bigint, nowait boolean, isdetached boolean, replaced bytea,
	INOUT refusal text, INOUT have integer, INOUT state integer, INOUT contended boolean, INOUT evicted boolean, INOUT ticket bigint,
	INOUT units integer, INOUT lim integer, INOUT ttl bigint, INOUT look bigint
) LANGUAGE plpgsql AS $$
DECLARE
	j record;
	r @reply;
	notes text := set_config('leasehold.notes', E'\n', true);
BEGIN
	j := @join(n, cid, channel, own, want, wantlim, life, nowait, isdetached, replaced);
	r := j.reply;
	refusal := j.refusal;
	have := coalesce(j.have, 0);
	state := r.state;
	contended := r.contended;
	evicted := r.evicted;
	ticket := r.ticket;
	units := r.units;
	lim := r.lim;
	ttl := r.ttl;
	look := r.look;
	notes := current_setting('leasehold.notes');
	IF notes <> E'\n' THEN
		COMMIT;
		PERFORM @told(notes);
	END IF;
END $$;

CREATE OR REPLACE PROCEDURE @leaves(
	n bytea, cid bytea, INOUT i integer, INOUT state integer, INOUT contended boolean, INOUT evicted boolean, INOUT ticket bigint,
	INOUT units integer, INOUT lim integer, INOUT ttl bigint, INOUT look bigint
) LANGUAGE plpgsql AS $$
DECLARE
	r @reply;
	notes text := set_config('leasehold.notes', E'\n', true);
BEGIN
	r := @leaving(n, cid);
	state := r.state;
	contended := r.contended;
	evicted := r.evicted;
	ticket := r.ticket;
	units := r.units;
	lim := r.lim;
	ttl := r.ttl;
	look := r.look;
	notes := current_setting('leasehold.notes');
	IF notes <> E'\n' THEN
		COMMIT;
		PERFORM @told(notes);
	END IF;
END $$;

-- Joins and Leaves of many callers, each of another name, as far as they are simple: a
-- Join of a name that is free, and a Leave of the only claim there. What is not, or is
-- locked by others, is left out of the answers and changes nothing. Nobody is to be told of
-- any. As this waits for no lock, no name keeps the others waiting, and it has no part in a
-- deadlock.
CREATE OR REPLACE FUNCTION @share(
	ns bytea[], ids bytea[], leaves boolean[], channel text, owns bytea[], wants integer[], lims integer[], lives bigint[], dets boolean[]
) RETURNS TABLE (i integer, reply @reply) LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
	t bigint;
	free bigint[]; -- which calls, and where the row of their name is
	places tid[];
	ready boolean := @ready() AND @shares();
BEGIN
	-- Locked first, and read in later statements, as everywhere. A row that is locked stays in its
	-- place. So it is changed by its place, and no plan reads a table for it: see the index of claims.
	SELECT array_agg(w.i), array_agg(q.place) INTO free, places
		FROM unnest(ns, leaves) WITH ORDINALITY w (n, leave, i), LATERAL (
			SELECT x.ctid AS place FROM @names x WHERE x.name = w.n AND x.gen = (SELECT y.gen FROM @names y WHERE y.name = w.n ORDER BY y.gen LIMIT 1)
				AND x.size = w.leave::integer FOR UPDATE SKIP LOCKED
		) q;
	t := @clock();
	-- A renewal that is under way has locked its claim and no name. The claim of one that ended
	-- since this statement began is in a new place, and not deleted here.
	RETURN QUERY WITH found AS (
		SELECT w.i, w.place, q.claim FROM unnest(free, places) w (i, place), LATERAL (
			SELECT x.ctid AS claim FROM @claims x WHERE leaves[w.i] AND x.id = ids[w.i] AND x.name || '' = ns[w.i] AND x.deadline > t AND NOT x.evicted
				FOR UPDATE SKIP LOCKED
		) q
	), gone AS (
		DELETE FROM @claims c USING found f WHERE c.ctid = f.claim RETURNING f.i, f.place, c.ticket, c.units
	)
	UPDATE @names q SET used = 0, size = 0, soonest = 9223372036854775807, seen = t, gen = q.gen - (random() < 1.0 / 32)::integer
		FROM gone c WHERE q.ctid = c.place
		RETURNING c.i::integer, (CASE WHEN c.ticket <= q.upto THEN 2 ELSE 1 END, false, false, c.ticket, c.units, q.lim, 0, 0)::@reply;
	RETURN QUERY WITH taken AS (
		UPDATE @names q SET last = greatest(q.last + 1, t), lim = lims[w.i], upto = greatest(q.last + 1, t), front = greatest(q.last + 1, t),
			used = wants[w.i], size = 1, soonest = t + lives[w.i], seen = t, gen = q.gen - (random() < 1.0 / 32)::integer
		FROM unnest(free, places) w (i, place)
		WHERE NOT leaves[w.i] AND q.ctid = w.place AND t >= q.seen AND t < q.soonest AND greatest(q.last, t) < 9007199254740991
		RETURNING w.i, q.name, q.last
	), placed AS (
		INSERT INTO @claims SELECT x.name, x.last, ids[x.i], channel, owns[x.i], wants[x.i], t + lives[x.i], lives[x.i], dets[x.i], false, false
			FROM taken x
	)
	SELECT x.i::integer, (2, false, false, x.last, wants[x.i], lims[x.i], lives[x.i], 0)::@reply FROM taken x;
	IF random() < cardinality(ns) / 32.0 THEN -- as often as in join: half of them are Joins
		PERFORM @sweep('');
	END IF;
END $$;

-- Ends the claim with that ticket: one that waits at once, one that holds by a
-- mark, or at once too if asked. Its client is told. False: no such claim.
--
-- A claim that ends at once leaves the line, and its row stays until its deadline, for
-- a client that is not told: a renewal of it says that somebody ended it. The row gets a
-- name that no line has, as no name has a NUL. The next evict of a name deletes those that
-- have expired, and sweep deletes all of them with the name.
CREATE OR REPLACE FUNCTION @evict(n bytea, which bigint, atonce boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	l @names;
	c @claims;
	t bigint;
	ended boolean;
	aside bytea := '\x00'::bytea || sha256(n);
BEGIN
	l := @open(n);
	IF l.name IS NULL THEN
		RETURN false;
	END IF;
	t := @clock();
	l := @purge(l, t);
	l := @grant(l, '');
	UPDATE @claims SET evicted = true WHERE name = n AND ticket = which RETURNING * INTO c;
	ended := FOUND;
	IF ended THEN
		PERFORM @note(l, c, 3, @behind(l, c.ticket));
		IF atonce OR c.ticket > l.upto THEN
			DELETE FROM @claims WHERE name = aside AND (deadline <= t OR id = c.id); -- c.id: a former incarnation
			UPDATE @claims SET name = aside WHERE name = n AND ticket = which;
			l := @without(l, c);
			l := @grant(l, '');
		END IF;
	END IF;
	PERFORM @store(l);
	RETURN ended;
END $$;

-- Takes the claims of a client out of up to a hundred lines, detached ones
-- excepted, and says of how many lines. It reads all claims: a client ends once.
CREATE OR REPLACE FUNCTION @depart(channel text) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
	l @names;
	c @claims;
	n bytea;
	lines integer := 0;
BEGIN
	FOR n IN SELECT DISTINCT x.name FROM @claims x JOIN @names y ON y.name = x.name WHERE x.client = channel AND NOT x.detached ORDER BY x.name LIMIT 100 LOOP
		l := @open(n);
		CONTINUE WHEN l.name IS NULL;
		FOR c IN DELETE FROM @claims WHERE name = n AND client = channel AND NOT detached RETURNING * LOOP
			l := @without(l, c);
		END LOOP;
		l := @purge(l, @clock());
		l := @grant(l, '');
		PERFORM @store(l);
		lines := lines + 1;
	END LOOP;
	RETURN lines;
END $$;

-- Looks at the next 32 names and forgets those that nobody has used for a day:
-- no TTL is longer, so nobody is in line there. One Join in 16 does it, so for each
-- two names are looked at, and those that nobody uses never pile up. It waits for
-- no lock, and its caller for none after it, so it has no part in a deadlock. The
-- last tickets are stored in the step that forgets them. The name that is being joined
-- was unused until now, and stays: its row is locked by this caller, who does not skip
-- its own lock.
CREATE OR REPLACE FUNCTION @sweep(joined bytea) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	s @swept;
	t bigint := @clock() - 86400000000;
	n @names;
	looked integer := 0;
BEGIN
	SELECT * INTO s FROM @swept FOR UPDATE SKIP LOCKED;
	IF NOT FOUND THEN
		RETURN; -- somebody else is at it
	END IF;
	LOOP -- from name to name, past what others had for a key
		SELECT * INTO n FROM @names WHERE name > s.upto ORDER BY name, gen LIMIT 1;
		EXIT WHEN NOT FOUND OR looked = 32;
		looked := looked + 1;
		s.upto := n.name;
		IF n.seen < t AND n.name <> joined THEN
			SELECT * INTO n FROM @names WHERE name = n.name AND gen = n.gen AND seen < t FOR UPDATE SKIP LOCKED;
			IF FOUND THEN
				DELETE FROM @claims WHERE name IN (n.name, '\x00'::bytea || sha256(n.name));
				DELETE FROM @names WHERE name = n.name AND gen = n.gen;
				s.last := greatest(s.last, n.last);
			END IF;
		END IF;
	END LOOP;
	IF looked < 32 THEN
		s.upto := '';
	END IF;
	UPDATE @swept SET upto = s.upto, last = s.last;
END $$;

-- What the tables and types are. Another number is another layout.
CREATE OR REPLACE FUNCTION @layout() RETURNS integer LANGUAGE sql IMMUTABLE AS $$ SELECT 1 $$;

-- Which edition the functions are, and the oldest whose clients they serve.
CREATE OR REPLACE FUNCTION @edition(OUT newest integer, OUT oldest integer) LANGUAGE sql IMMUTABLE AS $$ SELECT 6, 1 $$;
