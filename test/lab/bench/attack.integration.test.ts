import { expect, it } from 'vitest'
import { benchAttack } from '../../../lab/bench/attack/bench.ts'
import { attackReport } from '../../../lab/bench/attack/report.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { captureIo } from '../../support/captured-io.ts'
import { tempDir } from '../../support/temp-dir.ts'

it('measures an honest device beside each flood and all together, and counts what is lost', { timeout: 60_000 }, async () => {
  using dir = tempDir()
  const { io } = captureIo({ env: { PATH: '' } })
  const floods = [{ name: 'refusals' }, { name: 'anonymous-requests' }, { name: 'answers', keyRole: 'client' as const }]
  const limits = { bundle: await buildTextBundle(dir.path), floods, aloneS: 1, togetherS: 1 }
  const result = await benchAttack(limits, { io, quick: true, progress() {} })
  expect(result.summary).toMatchObject({ honestLost: 0 })
  expect(result.summary.honestStarted).toBeGreaterThan(10)
  expect(result.summary.honestP99Ms).toBeGreaterThan(0)
  expect(result.runs).toMatchObject([
    { name: 'no flood', counts: {} },
    { name: 'refusals', counts: { refusals: { requests: expect.any(Number) } } },
    { name: 'anonymous-requests' },
    { name: 'answers', counts: { answers: { limited: expect.any(Number) } } },
    { name: 'all together' },
  ])
  const [table] = attackReport.tables!({ bench: 'attack', ...result })
  expect(table!.rows.map(([name]) => name)).toEqual(['no flood', 'refusals', 'anonymous-requests', 'answers', 'all together'])
})
