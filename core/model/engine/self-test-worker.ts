import { once } from 'node:events'
import { BrimError } from '../../kit/base/errors.ts'
import { readManifest } from '../bundle/bundle.ts'
import { openRuntime } from './capi.ts'
import { limitThisProcess } from './process-limits.ts'
import { testPart } from './self-test.ts'
import type { SelfTestReply, SelfTestRequest } from './self-test-process.ts'

/** Tests the parts of one bundle, one after another, and waits to be killed. See self-test-process.ts. */
async function main(): Promise<void> {
  // Without its parent, nothing else would end this process while the library computes.
  process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  const [request] = (await once(process, 'message')) as [SelfTestRequest]
  try {
    await testParts(request)
  } catch (error) {
    reply({ kind: 'failed', ...describe(error) })
  }
}

async function testParts({ folder, parts, threads, library, limits }: SelfTestRequest): Promise<void> {
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

function reply(message: SelfTestReply): void {
  process.send?.(message)
}

function describe(error: unknown): Omit<Extract<SelfTestReply, { kind: 'failed' }>, 'kind'> {
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
