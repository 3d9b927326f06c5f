import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { bridgeLlm } from '../../../agent/disco/bridge-llm.ts'
import { openBridgeKey } from '../../../agent/identity/bridge-key.ts'
import { createCredentials } from '../../../agent/identity/credentials.ts'
import { openIdentityStore } from '../../../cloud-bridge/identity/store.ts'
import { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import { loadTextModel } from '../../../core/answer/endpoint/text-model.ts'
import { leftByClients } from '../../../core/answer/upstream/leaving.ts'
import { systemClock } from '../../../core/kit/base/clock.ts'
import { KeptConnections } from '../../../core/kit/base/kept-connections.ts'
import { readManifest } from '../../../core/model/bundle/bundle.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { buildTextBundle } from '../../support/agent-world.ts'
import { startTestBridge } from '../../support/bridge.ts'
import { enrolDevice } from '../../support/enrol-device.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const pem = (name: string) => readFileSync(new URL(`../../fixtures/tls/first.${name}.pem`, import.meta.url))

it.each([
  ['in plain text', false],
  ['over TLS, with a pinned key', true],
])('requests share one grant, and get another one from a bridge that was restarted: %s', async (_, isEncrypted) => {
  using dir = tempDir()
  const tls = { cert: join(dir.path, 'cert.pem'), key: join(dir.path, 'key.pem') }
  writeFileSync(tls.cert, pem('cert'))
  writeFileSync(tls.key, pem('key'), { mode: 0o600 })
  const settings = isEncrypted ? { tls } : {}
  const bundle = await buildTextBundle(dir.path, { adapter: false })
  const stateDir = join(dir.path, 'bridge')
  const first = await startTestBridge({ bundle, stateDir, auth: true, ...settings })
  const store = openIdentityStore(stateDir)
  const { enrolment } = await enrolDevice({ dir: dir.path, bridge: first }, store, 'jetson-01')
  store.close()
  const key = openBridgeKey(join(dir.path, 'jetson-01'), enrolment.url)
  const credentials = createCredentials({ enrolment, key, clock: systemClock, logger: silentLogger() })
  const never = new AbortController().signal
  const url = `${credentials.origin}/v1`
  const [token, same] = await Promise.all([credentials.requestToken(url, never), credentials.requestToken(url, never)])
  expect(same).toBe(token)
  await expect(credentials.requestToken('http://127.0.0.1:1/v1', never)).rejects.toMatchObject({ code: 'IDENTITY_INVALID' })

  const model = await loadTextModel(bundle, await readManifest(bundle))
  const connections = new KeptConnections()
  const llm = bridgeLlm({
    model,
    modelId: first.modelId,
    bridge: () => ({ origin: credentials.origin, credentials, connections }),
    leavingOf: leftByClients,
    limits: {
      requests: 4,
      queue: 4,
      retries: 0,
      maxRetryAfterMs: 0,
      connectMs: 5_000,
      firstTokenMs: 20_000,
      idleMs: 20_000,
      totalMs: 60_000,
      eventChars: 65_536,
    },
    clock: systemClock,
    random: { next: () => 0 },
    logger: silentLogger(),
  })
  const prompt = new Prompt({ kind: 'text', text: 'The river' })
  const answer = async () => {
    const tokens: number[] = []
    const request = { prompt, sampling: greedy, maxTokens: 4, stop: [], client: 'app' }
    for await (const delta of llm.answer(request, never)) tokens.push(...delta.tokens)
    return tokens
  }
  const before = await answer()
  await first.close()
  const second = await startTestBridge({
    bundle,
    stateDir,
    auth: true,
    httpPort: Number(new URL(first.httpUrl).port),
    ...settings,
  })
  try {
    expect(await answer()).toEqual(before)
    expect(await credentials.requestToken(url, never)).not.toBe(token)
  } finally {
    credentials.close()
    await second.close()
  }
})
