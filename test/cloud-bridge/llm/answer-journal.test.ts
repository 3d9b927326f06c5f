import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { expect, it } from 'vitest'
import { AnswerJournal } from '../../../cloud-bridge/llm/answer-journal.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const open = (stateDir: string, clock = fakeClock(), modelIds: readonly string[] = ['m', 'n']) =>
  new AnswerJournal<string>({ stateDir, modelIds, graceMs: 60_000, maxDetached: 2, clock, logger: silentLogger() })

it('keeps what was written when its process ends without closing it, for the same client and model', () => {
  using dir = tempDir()
  const killed = open(dir.path)
  killed.begin('a', 'client', 'm', 'request')
  killed.append('a', 0, { tokens: [3] })
  killed.append('a', 1, { tokens: [4, 5], end: 'length' })
  const next = open(dir.path)
  expect(next.resume('a', 'client')).toEqual({
    modelId: 'm',
    request: 'request',
    records: [{ tokens: [3] }, { tokens: [4, 5], end: 'length' }],
  })
  expect(next.resume('a', 'other')).toBeUndefined()
  expect(open(dir.path, fakeClock(), ['n', 'o']).resume('a', 'client')).toBeUndefined()
})

it('gives the tokens before a gap, and none that cannot be read', () => {
  using dir = tempDir()
  const journal = open(dir.path)
  for (const id of ['gap', 'broken']) journal.begin(id, 'client', 'n', id)
  journal.append('gap', 0, { tokens: [1] })
  journal.append('gap', 2, { tokens: [3] })
  const other = new Database(join(dir.path, 'answers.sqlite'))
  other.prepare("INSERT INTO deltas VALUES ('broken', 0, '{\"tok')").run()
  other.close()
  expect(journal.resume('gap', 'client')?.records).toEqual([{ tokens: [1] }])
  expect(journal.resume('broken', 'client')).toBeUndefined()
})

it('replaces a file that is no database', () => {
  using dir = tempDir()
  writeFileSync(join(dir.path, 'answers.sqlite'), 'x'.repeat(8_192))
  const journal = open(dir.path)
  journal.begin('a', 'client', 'm', 'request')
  expect(journal.resume('a', 'client')).toEqual({ modelId: 'm', request: 'request', records: [] })
})

it('deletes answers after the grace time, and the oldest of too many', async () => {
  using dir = tempDir()
  const clock = fakeClock()
  const journal = open(dir.path, clock)
  for (const id of ['a', 'b', 'c']) {
    journal.begin(id, 'client', 'n', id)
    journal.detach(id)
    await clock.advance(1_000)
  }
  expect(['a', 'b', 'c'].map((id) => journal.resume(id, 'client')?.request)).toEqual([undefined, 'b', 'c'])
  journal.detach('b')
  await clock.advance(61_000)
  // c has a connection.
  expect(['b', 'c'].map((id) => journal.resume(id, 'client')?.request)).toEqual([undefined, 'c'])
})
