import { once } from 'node:events'
import { readManifest } from '../bundle/bundle.ts'
import { openRuntime } from './capi.ts'
import { measureParts } from './measure-parts.ts'
import { openModel } from './open-model.ts'
import { cpuProvider, failureOf, type Provider } from './provider.ts'
import type { TrialMessage, TrialReply, TrialRequest } from './provider-trial.ts'
import { testLoadedParts } from './self-test.ts'

/** Tries one provider, and waits to be killed. See provider-trial.ts. */
async function main(): Promise<void> {
  process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  const [request] = (await once(process, 'message')) as [TrialRequest]
  const reply = await answer(request).catch((error: unknown): TrialReply => ({ kind: 'failed', reason: failureOf(error) }))
  process.send?.(reply)
}

async function answer(request: TrialRequest): Promise<TrialReply> {
  const cpu = await secondsOn(request, cpuProvider)
  process.send?.({ kind: 'cpu', seconds: cpu } satisfies TrialMessage)
  return { kind: 'measured', seconds: { provider: await secondsOn(request, request.provider), cpu } }
}

async function secondsOn({ folder, parts, threads, library }: TrialRequest, provider: Provider): Promise<number> {
  const runtime = await openRuntime({ library, provider })
  try {
    await using model = await openModel(runtime, folder, { parts, threads })
    await testLoadedParts(model, folder, parts)
    return await measureParts(model, await readManifest(folder), parts)
  } finally {
    await runtime.close()
  }
}

await main()
