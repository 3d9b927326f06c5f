import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { beforeAll, expect, it } from 'vitest'
import { tinyCheckpoint } from '../../support/checkpoint.ts'
import { shared } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const cli = fileURLToPath(new URL('../../../dist/brim.js', import.meta.url))

const dir = shared(tempDir)
let checkpoint: string
beforeAll(async () => {
  // 32 M parameters: a build takes about a second, so that it can be interrupted.
  const config = { hidden_size: 512, intermediate_size: 2048, num_hidden_layers: 6, num_attention_heads: 8, vocab_size: 8000 }
  checkpoint = await tinyCheckpoint(join(dir.path, 'checkpoint'), config, { dtype: 'BF16' })
})

/** `brim model build` as a separate process, ended by a signal as soon as it writes. */
async function buildUntil(signal: NodeJS.Signals, folder: string): Promise<[code: number | null, by: string | null]> {
  const child = spawn(process.execPath, [cli, 'model', 'build', checkpoint, '--out', join(folder, 'bundle')], { stdio: 'ignore' })
  const ended = once(child, 'exit')
  await expect.poll(() => readdirSync(folder), { interval: 2, timeout: 20_000 }).toHaveLength(1)
  child.kill(signal)
  const [code, by] = await ended
  return [code, by]
}

it.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('a build that receives %s exits with %d and leaves no files', async (signal, exitCode) => {
  const folder = join(dir.path, signal)
  mkdirSync(folder)
  expect(await buildUntil(signal, folder)).toEqual([exitCode, null])
  expect(readdirSync(folder)).toEqual([])
})

it('a build removes the files of an earlier one that was killed', async () => {
  const folder = join(dir.path, 'killed')
  mkdirSync(folder)
  expect(await buildUntil('SIGKILL', folder)).toEqual([null, 'SIGKILL'])
  expect(readdirSync(folder)).toEqual([expect.stringMatching(/^bundle\.partial-/)])
  const child = spawn(process.execPath, [cli, 'model', 'build', checkpoint, '--out', join(folder, 'bundle')], { stdio: 'ignore' })
  expect(await once(child, 'exit')).toEqual([0, null])
  expect(readdirSync(folder)).toEqual(['bundle'])
})

it.each([
  ['login', '--bridge-url', 'http://127.0.0.1:1'],
  ['agent', 'enroll', '--id', 'a', '--token-file', '-'],
])('brim %s exits with 130 on Ctrl-C while it waits for standard input', async (...words) => {
  const child = spawn(process.execPath, [cli, ...words], {
    stdio: ['pipe', 'ignore', 'pipe'],
    env: { ...process.env, HOME: dir.path },
  })
  const printed = text(child.stderr)
  const ended = once(child, 'exit')
  child.stdin.on('error', () => {})
  // More than a pipe holds: once it is written, the command has started to read.
  await new Promise((written) => child.stdin.write(Buffer.alloc(2 ** 20, 0x61), written))
  child.kill('SIGINT')
  expect(await ended).toEqual([130, null])
  child.stdin.destroy()
  expect(await printed).toContain('interrupted [CANCELED]')
})
