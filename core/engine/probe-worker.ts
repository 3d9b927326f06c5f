import { once } from 'node:events'
import { BrimError } from '../base/errors.ts'
import { readManifest } from '../model/bundle.ts'
import { openRuntime } from './capi.ts'
import type { ProbeReply, ProbeRequest } from './probe.ts'
import { limitThisProcess } from './process-limits.ts'
import { testPart } from './self-test.ts'

/** The process of a probe: tests the parts of one bundle, one after another, and waits to be killed. See probe.ts. */
async function main(): Promise<void> {
  // Without its parent, nothing else would end this process while the library computes.
  process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  const [request] = (await once(process, 'message')) as [ProbeRequest]
  try {
    await probe(request)
  } catch (error) {
    reply({ kind: 'failed', ...describe(error) })
  }
}

async function probe({ folder, parts, threads, library, limits }: ProbeRequest): Promise<void> {
  const runtime = await openRuntime({ library })
  // Before anything of the bundle is read.
  limitThisProcess(limits)
  const manifest = await readManifest(folder)
  for (const part of parts) {
    reply({ kind: 'testing', part })
    reply({ kind: 'tested', test: await testPart(runtime, folder, manifest, part, threads) })
  }
  reply({ kind: 'done' })
}

function reply(message: ProbeReply): void {
  process.send?.(message)
}

function describe(error: unknown): Omit<Extract<ProbeReply, { kind: 'failed' }>, 'kind'> {
  if (error instanceof BrimError) {
    const { code, message, hint, cause } = error
    return { code, message, hint, cause: cause instanceof Error ? cause.message : undefined }
  }
  // Such as "Array buffer allocation failed", or an index beyond a table of the bundle.
  const message = error instanceof Error ? error.message : String(error)
  const code = /allocation failed/.test(message) ? 'OUT_OF_MEMORY' : 'BUNDLE_INVALID'
  return { code, message: `the self-test failed: ${message}`, hint: undefined, cause: undefined }
}

await main()
