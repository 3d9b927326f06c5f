import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { fixtureDir } from '../../oracle/fixtures.ts'
import { brim } from '../../support/brim.ts'
import { captureIo } from '../../support/captured-io.ts'
import { repo, startHub } from '../../support/hub.ts'
import { fresh } from '../../support/shared.ts'
import { tempDir } from '../../support/temp-dir.ts'

const checkpoint = fixtureDir('llama')
const head = join(dirname(checkpoint), 'draft-heads', 'qwen')
const bytesOf = (name: string) => readFileSync(join(head, name))

const dir = fresh(tempDir)

async function build(args: string[], env: Record<string, string> = {}) {
  const { io, out } = captureIo({ env: { HOME: dir.path, ...env } })
  const error = await brim(['model', 'build', checkpoint, '--out', join(dir.path, 'bundle'), ...args], io).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return { out: out(), error }
}

it('builds a bundle with a draft head from the hub', async () => {
  const files = new Map(['config.json', 'model.safetensors'].map((name) => [name, bytesOf(name)]))
  await using hub = await startHub(files)
  const { out, error } = await build(['--split', '1', '--draft-head', repo], { HF_ENDPOINT: hub.url })
  expect(error).toBeUndefined()
  expect(out).toMatch(/adapter +\d\.\d MB, a draft head: one layer with features/)
  expect(out).toMatch(/draft-output +0\.0 MB, head, for the draft head, 1 slot/)
})

it('says that a head which the hub has as a pickle only must be converted', async () => {
  const files = new Map([
    ['config.json', bytesOf('config.json')],
    ['pytorch_model.bin', Buffer.from('pickle')],
  ])
  await using hub = await startHub(files)
  const { error } = await build(['--split', '1', '--draft-head', repo], { HF_ENDPOINT: hub.url })
  expect(error).toMatchObject({
    code: 'CHECKPOINT_NOT_FOUND',
    hint: expect.stringMatching(/pytorch_model\.bin\) must be converted/),
  })
})

it('splits automatically with memory for the head', async () => {
  const { out, error } = await build(['--split', 'auto', '--draft-head', head, '--json'])
  expect(error).toBeUndefined()
  expect(JSON.parse(out)).toMatchObject({ split: 1 })
})
