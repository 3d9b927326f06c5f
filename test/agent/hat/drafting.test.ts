import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Drafting } from '../../../agent/hat/drafting.ts'
import { DeviceStream } from '../../../core/draft/device-stream.ts'
import type { Drafter } from '../../../core/draft/drafter.ts'
import { openBundle } from '../../../core/engine/open-bundle.ts'
import type { LoadedModel } from '../../../core/engine/open-model.ts'
import { DeviceSpeed } from '../../../core/policy/hat/device-speed.ts'
import { countingDrafter } from '../../support/counting-drafter.ts'
import { buildDrafterBundle } from '../../support/drafter-bundle.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { type TempDir, tempDir } from '../../support/temp-dir.ts'

let dir: TempDir
let model: LoadedModel
beforeAll(async () => {
  dir = tempDir()
  model = await openBundle(await buildDrafterBundle(dir.path), { parts: ['input'], threads: 1 })
})
afterAll(async () => {
  await model.release()
  dir[Symbol.dispose]()
})

const never = () => false

describe('drafting ahead in a session', () => {
  const trip = { rows: 3, bytesPerToken: 1e3, upBytesPerS: 1e6, downBytesPerS: 1e6, rttS: 0.01, waitS: 0, computeS: 0.005 }

  /** @param stepMs time of each drafting step, by the session's clock */
  async function session(stepMs: number) {
    const clock = fakeClock()
    const stream = new DeviceStream(model.part('input'), model.manifest.dims.hidden, 3)
    const speed = new DeviceSpeed()
    const { asked, drafter } = countingDrafter()
    const slow: Drafter = {
      ...drafter,
      async next(known, rows) {
        await clock.advance(stepMs)
        return drafter.next(known, rows)
      },
    }
    const options = {
      threshold: 0.6,
      paced: false,
      branching: 'last' as const,
      eos: [],
      ahead: true,
      contextLimit: model.manifest.dims.contextLimit,
    }
    const drafting = new Drafting({ ...options, drafter: slow, stream, speed, clock, checkCanceled() {} })
    await stream.feed([1, 2, 3])
    return { asked, stream, drafting, speed }
  }

  it('takes the steps that fit into the expected round trip, and measures them', async () => {
    // 10 + 3 + 5 + 3 ms.
    for (const [stepMs, steps] of [
      [4, 5],
      [20, 1],
      [25, 0],
    ] as const) {
      const { asked, stream, drafting, speed } = await session(stepMs)
      await drafting.draft(4, 2)
      const before = asked.length
      await drafting.draftAhead(trip, 8, never)
      expect(asked.length - before).toBe(steps)
      if (steps > 0) expect(speed.aheadStepS).toBeCloseTo(stepMs / 1_000)
      stream.release()
    }
  })

  it('resumes after one slow step has made its estimate too high', async () => {
    const { stream, drafting, speed } = await session(4)
    speed.recordAheadStep(0.004)
    for (let step = 0; step < 6; step++) speed.recordAheadStep(3)
    expect(speed.aheadStepS! * 1e3).toBeGreaterThan(21)
    for (let at = 0; drafting.aheadFigures?.drafted === 0 && at < 40; at++) {
      await drafting.draft(4 + at, 1)
      await drafting.draftAhead(trip, 8, never)
      drafting.settle(3 + at, [], 5 + at)
    }
    expect(drafting.aheadFigures?.drafted).toBeGreaterThan(0)
    stream.release()
  })

  it('begins the next draft with the prepared one, continues it, and counts it', async () => {
    const { asked, stream, drafting, speed } = await session(4)
    expect(await drafting.draft(4, 2)).toEqual({ tokens: [5, 6], parents: [-1, 0] })
    await drafting.draftAhead({ ...trip, rttS: 0 }, 8, never)
    drafting.settle(3, [0, 1], 7)
    expect(stream.ids).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
    const before = asked.length
    expect(await drafting.draft(7, 3)).toEqual({ tokens: [8, 9, 10], parents: [-1, 0, 1] })
    expect(asked.length - before).toBe(2)
    expect(drafting.aheadFigures).toEqual({ drafted: 4, rounds: 1, tokens: 1 })
    // The prepared token took no step of this draft.
    expect(speed.draftStepS).toBeCloseTo(0.004, 6)
    stream.release()
  })

  it('drops prepared drafts that the verification contradicts, and tokens beyond the next round’s limit', async () => {
    const { stream, drafting } = await session(1)
    await drafting.draft(4, 2)
    await drafting.draftAhead(trip, 8, never)
    drafting.settle(3, [0], 60)
    expect(stream.ids).toEqual([1, 2, 3, 4, 5])
    expect(await drafting.draft(60, 2)).toMatchObject({ tokens: [61, 62] })
    await drafting.draftAhead(trip, 8, never)
    drafting.settle(5, [0, 1], 63)
    expect(await drafting.draft(63, 1)).toMatchObject({ tokens: [64] })
    expect(stream.ids).toEqual([1, 2, 3, 4, 5, 60, 61, 62, 63, 64])
    stream.release()
  })
})
