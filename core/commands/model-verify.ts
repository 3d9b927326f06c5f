import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import type { CommandModule } from 'yargs'
import { BrimError } from '../base/errors.ts'
import type { Io } from '../base/io.ts'
import { openRuntime } from '../engine/capi.ts'
import { type PartTest, testPart } from '../engine/self-test.ts'
import { readManifest, verifyHashes } from '../model/bundle.ts'
import type { Manifest, PartName } from '../model/manifest.ts'
import { showProgress } from './progress.ts'
import { checkThreads } from './threads.ts'

interface VerifyCommandOptions {
  bundle: string
  threads: number
  json?: boolean | undefined
}

/** `brim model verify`: are these the bytes that were built, and do they compute here what they computed there? */
export function modelVerifyCommand(io: Io): CommandModule<object, VerifyCommandOptions> {
  return {
    command: 'verify <bundle>',
    describe: "check a bundle's hashes and run its golden vectors on this machine",
    builder: (yargs) =>
      yargs
        .usage('Usage: brim model verify <bundle> [--json]')
        .example('brim model verify qwen', 'after copying a bundle, or on a new kind of machine')
        .example('brim model verify qwen --json | jq .parts', 'the error of each part')
        .positional('bundle', { type: 'string', demandOption: true, describe: 'folder of the bundle' })
        .option('threads', { type: 'number', default: Math.min(4, availableParallelism()), describe: 'threads per operator' }),
    handler: (options) => runVerify(options, io),
  }
}

async function runVerify({ bundle, threads, json }: VerifyCommandOptions, io: Io): Promise<void> {
  checkThreads(threads)
  const manifest = await readManifest(bundle)
  const progress = showProgress(io)
  const onProgress = (done: number, total: number) => progress.update('hashes', done / total)
  await verifyHashes(bundle, manifest, { signal: io.signal, onProgress })
  progress.end()
  const parts = await testParts(bundle, manifest, threads, io)
  const failed = parts.filter(({ passed }) => !passed).map(({ part }) => part)
  const files = manifest.files.length
  if (json) io.out(JSON.stringify({ dir: resolve(bundle), files, passed: failed.length === 0, parts }))
  else io.out([`${files} files are what was built`, ...testTexts(parts)].join('\n'))
  if (failed.length === 0) return
  throw new BrimError('BUNDLE_CORRUPT', `${failed.join(', ')} of ${bundle} computes other results here than where it was built`, {
    hint: 'the files are intact: try another ONNX Runtime (ORT_LIB), or report this machine with the errors above',
  })
}

async function testParts(bundle: string, manifest: Manifest, threads: number, io: Io): Promise<PartTest[]> {
  const runtime = await openRuntime({ library: io.env.ORT_LIB })
  try {
    const tests: PartTest[] = []
    for (const part of Object.keys(manifest.parts) as PartName[]) {
      io.signal.throwIfAborted()
      tests.push(await testPart(runtime, bundle, manifest, part, threads))
    }
    return tests
  } finally {
    await runtime.close()
  }
}

function testTexts(tests: readonly PartTest[]): string[] {
  const width = Math.max(...tests.map(({ part }) => part.length))
  return tests.map(({ part, error, tolerance, passed }) => {
    const figures = `error ${error.toExponential(1)}, allowed ${tolerance.toExponential(0)}`
    return `${part.padEnd(width)} ${passed ? 'pass' : 'FAIL'}  ${figures}`
  })
}
