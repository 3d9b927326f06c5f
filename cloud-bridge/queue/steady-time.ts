import type { SteadyTime } from '../../core/kit/base/steady-wall-clock.ts'
import type { Store } from '../../core/kit/store/open-database.ts'

/** A migration: the newest steady time. `boot`: the start of the machine that the times since its start (`…up_ms`) belong to. */
export const steadyTimeTable = `CREATE TABLE steady_time (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  ms REAL NOT NULL,
  boot TEXT NOT NULL,
  anchor_ms REAL NOT NULL,
  anchor_up_ms REAL NOT NULL,
  is_sure INTEGER NOT NULL,
  gap_ms REAL,
  gap_since_up_ms REAL
) STRICT`

interface Row {
  readonly ms: number
  readonly boot: string
  readonly anchor_ms: number
  readonly anchor_up_ms: number
  readonly is_sure: number
  readonly gap_ms: number | null
  readonly gap_since_up_ms: number | null
}

/** @param store must have `steadyTimeTable` @returns undefined: none was stored */
export function readSteadyTime(store: Store): SteadyTime | undefined {
  const row = store.prepare<[], Row>('SELECT * FROM steady_time').get()
  if (!row) return undefined
  const { ms, boot, anchor_ms, anchor_up_ms, is_sure, gap_ms, gap_since_up_ms } = row
  const doubt = gap_ms === null || gap_since_up_ms === null ? undefined : { gapMs: gap_ms, sinceUpMs: gap_since_up_ms }
  return { ms, boot, anchor: { ms: anchor_ms, upMs: anchor_up_ms, isSure: is_sure === 1 }, doubt }
}

/** @param store must have `steadyTimeTable` */
export function writeSteadyTime(store: Store, { ms, boot, anchor, doubt }: SteadyTime): void {
  store
    .prepare('INSERT OR REPLACE INTO steady_time VALUES (1, ?, ?, ?, ?, ?, ?, ?)')
    .run(ms, boot, anchor.ms, anchor.upMs, Number(anchor.isSure), doubt?.gapMs ?? null, doubt?.sinceUpMs ?? null)
}

/** The database is a copy: the clock of its new machine is believed. @param store must have `steadyTimeTable` */
export function forgetSteadyTime(store: Store): void {
  store.prepare('DELETE FROM steady_time').run()
}
