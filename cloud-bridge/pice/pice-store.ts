import { join } from 'node:path'
import type { Logger } from '../../core/kit/base/logger.ts'
import type { Store } from '../../core/kit/store/open-database.ts'
import { openReplaceable } from '../../core/kit/store/open-replaceable.ts'

/**
 * Migrations. `small_models`: the profiles of the devices' models, in the order of the profile; `factor`: ratio of real to
 * measured time. `abilities`: of the models on each device, by the confidence of their sentences (core/policy/pice/ability.ts);
 * `relevances`: the same of what the LLM says of a sample of them. `expansion_jobs`: which sketch of which job belongs to which
 * answer. `foresight`: logarithms of true to foreseen length of a model's latest answers, a JSON list.
 */
export const piceTables = [
  `
CREATE TABLE small_models (
  device TEXT NOT NULL,
  place INTEGER NOT NULL,
  measured_at TEXT NOT NULL,
  profile TEXT NOT NULL,
  factor REAL NOT NULL,
  runs INTEGER NOT NULL,
  PRIMARY KEY (device, place)
) STRICT, WITHOUT ROWID;
CREATE TABLE abilities (
  model TEXT PRIMARY KEY,
  confidence REAL NOT NULL,
  sentences REAL NOT NULL,
  judged_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE expansion_jobs (
  expansion TEXT NOT NULL,
  job TEXT NOT NULL,
  sketch INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  PRIMARY KEY (expansion, job)
) STRICT, WITHOUT ROWID;
CREATE INDEX expansion_jobs_age ON expansion_jobs (at_ms);
`,
  'CREATE TABLE foresight (model TEXT PRIMARY KEY, ratios TEXT NOT NULL) STRICT, WITHOUT ROWID',
  `
DROP TABLE abilities;
CREATE TABLE abilities (
  device TEXT NOT NULL,
  model TEXT NOT NULL,
  confidence REAL NOT NULL,
  sentences REAL NOT NULL,
  judged_ms INTEGER NOT NULL,
  PRIMARY KEY (device, model)
) STRICT, WITHOUT ROWID;
`,
  `
CREATE TABLE relevances (
  device TEXT NOT NULL,
  model TEXT NOT NULL,
  confidence REAL NOT NULL,
  sentences REAL NOT NULL,
  judged_ms INTEGER NOT NULL,
  PRIMARY KEY (device, model)
) STRICT, WITHOUT ROWID;
`,
]

/**
 * A database of its own, without a sync at each commit: what is lost by a power cut or damage is measured or expanded again.
 * @throws BrimError STORE_FAILED
 */
export const openPiceStore = (stateDir: string, logger: Logger): Store =>
  openReplaceable(join(stateDir, 'pice.sqlite'), piceTables, readAll, logger)

function readAll(store: Store): void {
  for (const table of ['small_models', 'abilities', 'relevances', 'expansion_jobs', 'foresight'])
    store.prepare(`SELECT * FROM ${table}`).all()
}
