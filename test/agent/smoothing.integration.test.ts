import { expect, it } from 'vitest'
import { isKnown } from '../support/absent-device.ts'
import { buildSlmBundle, startAgentWorld } from '../support/agent-world.ts'

interface Telemetry {
  readonly at: string
  readonly link: { readonly upBytesPerS: number | null } | null
  readonly speed: { readonly prefillTokensPerS: number | null; readonly draftStepMs: number | null }
  readonly answers: { readonly prefillTokensPerS: Readonly<Record<string, number>> }
}

it("weighs the past of the link's rates and of both models' speeds as configured", async () => {
  await using world = await startAgentWorld({ bridge: { prefixKeepS: 0 } })
  const slm = await buildSlmBundle(world.dir)
  const settings = { smoothing: 1 - 1e-12, draft: { drafter: 'adapter' }, telemetryS: 1 } as const
  const { apiUrl } = await world.startAgent({ id: 'steady', slms: [slm], ...settings })
  const post = (url: string, body: object) =>
    fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
  let questions = 0
  /** One answer by each of the two models, to a prompt that is not cached. */
  async function ask(): Promise<void> {
    questions += 1
    const prompt = Array.from({ length: 40 }, (_, at) => 5 + ((7 * questions + 3 * at) % 100))
    expect((await post(`${apiUrl}/v1/completions`, { prompt, max_tokens: 8 })).status).toBe(200)
    const input = { prompt: `Can you book a table for ${questions} in the house by the mill?`, maxTokens: 2 }
    const job = await post(`${world.bridge.httpUrl}/v1/jobs`, { kind: 'slm.generate', device: 'steady', input })
    const { id } = (await job.json()) as { id: string }
    const state = async () => ((await (await fetch(`${world.bridge.httpUrl}/v1/jobs/${id}`)).json()) as { state: string }).state
    await expect.poll(state, { timeout: 10_000 }).toBe('SUCCEEDED')
  }
  const latest = async () =>
    ((await (await fetch(`${world.bridge.httpUrl}/v1/devices/steady`)).json()) as { telemetry: Telemetry | null }).telemetry
  const figures = async () => {
    const { link, speed, answers } = (await latest()) ?? {}
    return [link?.upBytesPerS, speed?.prefillTokensPerS, speed?.draftStepMs, answers?.prefillTokensPerS['tiny-slm']]
  }
  await isKnown(world.bridge, 'steady')
  await ask()
  const measured = expect.any(Number)
  await expect.poll(figures, { timeout: 10_000 }).toEqual([measured, measured, measured, measured])
  const first = await figures()
  for (let n = 0; n < 4; n++) await ask()
  const asked = new Date().toISOString()
  await expect.poll(async () => ((await latest())?.at ?? '') > asked, { timeout: 10_000 }).toBe(true)
  // The first measurement has all the weight; with the default weight these values would have moved.
  expect(await figures()).toEqual(first)
})
