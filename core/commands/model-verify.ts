import { resolve } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../kit/base/errors.ts'
import type { Io } from '../kit/base/io.ts'
import { defineCommand, type OptionsOf } from '../kit/cli/command.ts'
import { readManifest, verifyHashes } from '../model/bundle/bundle.ts'
import type { PartName } from '../model/bundle/manifest.ts'
import type { PartTest } from '../model/engine/self-test.ts'
import { showProgress } from './progress.ts'
import { threadsOption } from './threads.ts'

const options = {
  bundle: z.string().describe('folder of the bundle'),
  threads: threadsOption,
  timeout: z.int().min(1).default(600).describe('max seconds of the self-test, which runs in a process of its own'),
  memory: z.int().min(256).default(2_048).describe('max memory of the self-test in MB, in addition to four times the files'),
}
type VerifyOptions = OptionsOf<typeof options>

/** `brim model verify`: compares hashes, and this machine's results with the golden vectors. */
export const command = defineCommand({
  examples: [
    ['brim model verify qwen', 'after copying a bundle, or on a new kind of machine'],
    ['brim model verify qwen --json | jq .parts', 'the error of each part'],
  ],
  options,
  run: verify,
})

async function verify({ bundle, threads, timeout, memory, json }: VerifyOptions, io: Io): Promise<void> {
  const manifest = await readManifest(bundle)
  const progress = showProgress(io)
  const onProgress = (done: number, total: number) => progress.update('hashes', done / total)
  await verifyHashes(bundle, manifest, { signal: io.signal, onProgress })
  progress.end()
  const { testBundle } = await import('../model/engine/self-test-process.ts')
  const parts = await testBundle(bundle, manifest, Object.keys(manifest.parts) as PartName[], {
    threads,
    library: io.env.ORT_LIB,
    limits: { probeTimeoutS: timeout, probeMemoryBytes: memory * 2 ** 20 },
    signal: io.signal,
  })
  const failed = parts.filter(({ passed }) => !passed).map(({ part }) => part)
  const files = manifest.files.length
  if (json) io.out(JSON.stringify({ dir: resolve(bundle), files, passed: failed.length === 0, parts }))
  else io.out([`${files} files match their hashes`, ...testTexts(parts)].join('\n'))
  if (failed.length === 0) return
  throw new BrimError(
    'BUNDLE_CORRUPT',
    `${failed.join(', ')} of ${bundle} has other results on this machine than on the one that built it`,
    {
      hint: 'the files are intact: try another ONNX Runtime with ORT_LIB, or report this with the errors above',
    },
  )
}

function testTexts(tests: readonly PartTest[]): string[] {
  const width = Math.max(...tests.map(({ part }) => part.length))
  return tests.map(({ part, error, tolerance, passed }) => {
    const figures = `error ${error.toExponential(1)}, allowed ${tolerance.toExponential(0)}`
    return `${part.padEnd(width)} ${passed ? 'pass' : 'FAIL'}  ${figures}`
  })
}
