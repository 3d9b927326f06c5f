import { expect, it } from 'vitest'
import type { Likelihood } from '../../../cloud-bridge/pice/likelihood.ts'
import type { Asked } from '../../../cloud-bridge/pice/llm.ts'
import { RelevanceCheck } from '../../../cloud-bridge/pice/relevance-check.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { knownWeight } from '../../../core/policy/pice/ability.ts'
import { silentLogger } from '../../support/silent-logger.ts'

const question = 'How do I bake bread?'
const asked = { messages: [{ role: 'user', content: question }], request: { client: 'c' } } as unknown as Asked
const by = (device: string, text: string) => ({ device, model: 'slm', text })

function world(
  likelihood: Likelihood = async (messages, text) => (text.includes('dough') && messages[0]!.content === question ? -1 : -3),
) {
  const judged: (readonly [device: string, relevance: number])[] = []
  const checked = (device: string) => judged.filter(([each]) => each === device).length
  const check = new RelevanceCheck({
    likelihood,
    random: seededRandom(1),
    profiles: { checked, judgeRelevance: (device, _, relevance) => void judged.push([device, relevance]) },
    logger: silentLogger(),
  })
  return { check, judged, checked }
}
const settled = () => new Promise((resolve) => setImmediate(resolve))

it('each device is checked until it is known, those that write on the question apart from those that do not', async () => {
  const { check, judged, checked } = world()
  for (let answers = 0; answers < 2 * knownWeight; answers++) {
    check.onEnded(asked, [by('good', 'Knead the dough.'), by('bad', 'There was a king.')])
    await settled()
  }
  expect([checked('good'), checked('bad')]).toEqual([knownWeight, knownWeight])
  expect(judged.every(([device, relevance]) => relevance === (device === 'good' ? 1 : 0.5))).toBe(true)
})

it('known devices are checked by a sample of the answers', async () => {
  const { check, judged } = world()
  for (let answers = 0; answers < 1_000; answers++) {
    check.onEnded(asked, [by('good', 'Knead the dough.')])
    await settled()
  }
  expect(judged.length).toBeGreaterThan(30)
  expect(judged.length).toBeLessThan(130)
})

it('one sentence is checked at a time, and an LLM that fails or an end of the bridge says nothing about a device', async () => {
  let running = 0
  const { check, judged } = world(async (_messages, text, _client, signal) => {
    running += 1
    if (text === 'fails') throw new Error('no memory')
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(new Error('canceled'))))
    return -1
  })
  check.onEnded(asked, [by('good', 'fails')])
  await settled()
  check.onEnded(asked, [by('good', 'waits')])
  check.onEnded(asked, [by('good', 'waits')])
  await settled()
  expect(running).toBe(2)
  await check.close()
  check.onEnded(asked, [by('good', 'waits')])
  expect([running, judged]).toEqual([2, []])
})
