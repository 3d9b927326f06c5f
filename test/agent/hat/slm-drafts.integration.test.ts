import { beforeAll, expect, it } from 'vitest'
import type { EndpointFigures } from '../../../core/answer/endpoint/figures.ts'
import { buildSlmBundle, startAgentWorld } from '../../support/agent-world.ts'
import { ask, linked } from '../../support/asking-agent.ts'
import { shared } from '../../support/shared.ts'

const world = shared(() => startAgentWorld({ adapter: false }))
let slm: string
beforeAll(async () => {
  slm = await buildSlmBundle(world.dir)
})

it.each(['slm', 'auto'] as const)(
  'an agent without an adapter answers privately with its small model drafting (%s)',
  async (drafter) => {
    const agent = await world.startAgent({ id: `drafts-${drafter}`, slms: [slm], draft: { drafter, threshold: 0 } })
    await linked(agent)
    const plain = await world.startAgent({ id: `plain-${drafter}`, draft: { drafter: 'none' } })
    await linked(plain)
    const more = { max_tokens: 40, ignore_eos: true }
    const expected = await ask(plain, {}, more)
    const answer = await ask(agent, {}, more)
    expect(answer.status).toBe(200)
    expect(answer.text).toBe(expected.text)
    expect(answer.report.sources).toMatchObject([{ source: 'hat' }])
    const { drafted, drafting } = answer.report as unknown as EndpointFigures
    if (drafter === 'slm') expect(drafted).toBeGreaterThan(10)
    else expect(drafting?.drafters.map(({ name }) => name)).toEqual(['lookup', 'slm', 'none'])
  },
)
