import OpenAI from 'openai'
import { expect, it } from 'vitest'
import { startAgentWorld } from '../support/agent-world.ts'
import { postJson } from '../support/post-json.ts'
import { shared } from '../support/shared.ts'

const world = shared(startAgentWorld)

const inProgress = async ({ apiUrl }: { apiUrl: string }): Promise<number> => {
  const health = (await (await fetch(`${apiUrl}/health`)).json()) as { answersInProgress: number }
  return health.answersInProgress
}

it.each([50, 100])('an agent answers %i small requests at once, each as it would alone', { timeout: 120_000 }, async (count) => {
  const openai = new OpenAI({ baseURL: `${world.agent.apiUrl}/v1`, apiKey: 'any', maxRetries: 0 })
  const ask = async (nth: number) => {
    const asked = { model: 'brim', messages: [{ role: 'user' as const, content: `Number ${nth % 10}?` }] }
    const answer = await openai.chat.completions.create({ ...asked, max_tokens: 6, temperature: 0 })
    return answer.choices[0]!.message.content
  }
  const alone: (string | null)[] = []
  for (let nth = 0; nth < 10; nth++) alone.push(await ask(nth))
  const together = Promise.all(Array.from({ length: count }, (_, nth) => ask(nth)))
  await expect.poll(() => inProgress(world.agent)).toBeGreaterThan(1)
  expect(await together).toEqual(Array.from({ length: count }, (_, nth) => alone[nth % 10]))
  await expect.poll(() => inProgress(world.agent)).toBe(0)
  // The sessions of answers that have ended are closed, or kept for their prefix.
  await expect.poll(async () => (await world.bridgeHealth()).sessions).toBe(0)
})

it('an agent refuses what its queue does not hold, and gives the place of a client that has left to the next', async () => {
  const agent = await world.startAgent({ id: 'narrow', limits: { hatAnswers: 1, hatWaiting: 1 } })
  const body = { model: 'brim', prompt: 'A', max_tokens: 200, temperature: 0, ignore_eos: true, stream: true }
  const ask = (signal?: AbortSignal) => postJson(`${agent.apiUrl}/v1/completions`, body, {}, signal)
  const first = await ask()
  const left = new AbortController()
  const waiting = ask(left.signal).then(
    () => 'answered',
    () => 'left',
  )
  await expect.poll(() => inProgress(agent)).toBe(2)
  expect((await ask()).status).toBe(429)
  left.abort()
  expect(await waiting).toBe('left')
  await expect.poll(() => inProgress(agent)).toBe(1)
  const next = ask()
  await first.body!.cancel()
  const answered = await next
  expect(answered.status).toBe(200)
  expect(await answered.text()).toContain('[DONE]')
})
