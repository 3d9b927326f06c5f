import { expect, it } from 'vitest'
import { Llm } from '../../../cloud-bridge/pice/llm.ts'
import { Planner } from '../../../cloud-bridge/pice/planner.ts'
import { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import { generalPrompts } from '../../../core/answer/sketch/prompts.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { LengthRatio } from '../../../core/policy/pice/length-ratio.ts'
import type { PlanPolicy } from '../../../core/policy/pice/plan-policy.ts'
import type { FleetView } from '../../../core/policy/pice/state.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { scriptedLlm } from '../../support/scripted-llm.ts'

const speed = { waitS: 1, ttftS: 0.5, tpotS: 0.05, slots: 8 }
const view: FleetView = {
  devices: [{ device: 'd', models: [], current: undefined, busyS: 3, networkS: 0.1 }],
  waiting: [{ id: 'w', expectedTokens: 200, waitedS: 2, budgetS: 9 }],
}

it('the policy gets the fleet as it is, the sketches that are being written, the LLM’s speed, and the lengths of its sketches', async () => {
  const clock = fakeClock()
  const seen: Parameters<PlanPolicy>[] = []
  const planner = new Planner({
    llm: new Llm(
      scriptedLlm(() => ({ pieces: ['300'] })),
      { ...generalPrompts, foresightUnit: 'tokens', sketchShares: [0.6, 0.4, 0.2] },
    ),
    cloud: { speed },
    expander: { view: () => view },
    foresight: new LengthRatio(),
    policy: (...given) => {
      seen.push(given)
      return { mode: 'full', reason: 'objectives', fullS: 1 }
    },
    suits: () => true,
    maxForesightMs: 1_000,
    clock,
  })
  const messages = [{ role: 'user', content: 'Why?' }] as const
  const request = { prompt: new Prompt({ kind: 'chat', messages }), sampling: greedy, stop: [], client: 'c' }
  const lastSeen = async () => {
    await planner.plan({ request, messages }, 'auto', new AbortController().signal)
    return seen.at(-1)!
  }
  const end = planner.begin('s', 120, { sketchS: 3 })
  await clock.advance(1_000)
  const [question, { devices, waiting }, ...rest] = await lastSeen()
  expect(question).toMatchObject({ expectedTokens: 300, isSketchRequested: false })
  expect(devices).toEqual(view.devices)
  expect(waiting).toEqual([...view.waiting, { id: 's', expectedTokens: 120, waitedS: 0, arrivesInS: 2 }])
  expect(rest.slice(0, 2)).toEqual([speed, [0.6, 0.4, 0.2]])
  // One that is late has arrived, for all that is known.
  await clock.advance(5_000)
  expect((await lastSeen())[1].waiting.at(-1)).toMatchObject({ arrivesInS: 0 })
  end()
  expect((await lastSeen())[1].waiting).toEqual(view.waiting)
})
