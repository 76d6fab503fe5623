-- Some columns of what a search leaves, and values that are hard to print.
CREATE TABLE search(search INTEGER PRIMARY KEY, question TEXT NOT NULL);
INSERT INTO search VALUES(1, 'llama3.1-70b on three buildings'), (2, 'the same | "without" <fp8>');
CREATE TABLE plan(search INTEGER NOT NULL, plan TEXT NOT NULL, family TEXT, devices INTEGER,
    step_s REAL AS (step_ns / 1e9), bound_ns INTEGER, step_ns INTEGER, peak_bytes INTEGER, mfu_frac REAL,
    tp INTEGER, pp INTEGER, schedule TEXT, "order" TEXT, PRIMARY KEY(search, plan)) WITHOUT ROWID;
INSERT INTO plan VALUES
    (1, 'dp=16,tp=8,pp=4,batch=1024', 'tp=8', 512, 11200000000, 12345678901, 64424509440, 0.4125, 8, 4, '1f1b', NULL),
    (1, 'dp=32,tp=4,pp=4,batch=1024', 'tp=4', 512, 10900000000, 11900000007, 75161927680, 0.428, 4, 4, 'zb_v', NULL),
    (1, 'dp=64,tp=2,pp=4,batch=1024', 'tp=2', 512, 10800000000, NULL, 84825604096, NULL, 2, 4, '1f1b', NULL),
    (2, 'dp=16,tp=8,pp=4,batch=1024,order=tp-dp-cp-pp', 'tp=8', 512, 11300000000, 12345678902, 64424509441, 0.4124,
     8, 4, '1f1b', 'tp-dp-cp-pp');
CREATE VIEW best AS SELECT search, row_number() OVER (PARTITION BY search ORDER BY step_ns) AS place, step_s, plan
    FROM plan WHERE step_ns IS NOT NULL ORDER BY search DESC, place;
