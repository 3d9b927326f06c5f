import { cp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { projectRoot } from '../../../core/kit/base/version.ts'
import { buildBundle } from '../../../core/model/bundle/build.ts'
import { drafterParts } from '../../../core/model/bundle/manifest.ts'
import { prefixBytes } from '../../../core/model/bundle/safetensors.ts'

const checkpoint = fileURLToPath(new URL('models/demo/llm', projectRoot))

interface Header {
  readonly [tensor: string]: {
    readonly dtype: string
    readonly shape: readonly number[]
    readonly data_offsets: readonly [number, number]
  }
}

/**
 * The demonstration model with layers that change nothing after its own, split as it is: their attention and MLP are computed, and
 * add zeros to the residual stream. So the middle takes longer, and answers, drafters, devices and links are as before.
 * @param folder that gets the checkpoint and the bundle
 * @returns the bundle's folder
 */
export async function buildDeeperModel(folder: string, layers: number): Promise<string> {
  const deeper = join(folder, 'checkpoint')
  await cp(checkpoint, deeper, { recursive: true })
  const config = JSON.parse(await readFile(join(deeper, 'config.json'), 'utf8')) as { num_hidden_layers: number }
  const own = config.num_hidden_layers
  await writeFile(join(deeper, 'config.json'), JSON.stringify({ ...config, num_hidden_layers: layers }))
  const file = join(deeper, 'model.safetensors')
  await writeFile(file, withLayers(await readFile(file), own, layers))
  const out = join(folder, 'bundle')
  await buildBundle({
    checkpoint: deeper,
    out,
    name: 'brim-demo-deeper',
    drafters: drafterParts.filter((part) => part !== 'medusa'),
    format: 'fp32',
    split: 1,
  })
  return out
}

/** The last layer again and again, with zeros for what it adds. */
function withLayers(file: Buffer, own: number, layers: number): Buffer {
  const length = Number(file.readBigUInt64LE())
  const { __metadata__, ...header } = JSON.parse(file.subarray(prefixBytes, prefixBytes + length).toString()) as Header
  const data = file.subarray(prefixBytes + length)
  const zeros = Buffer.alloc(Math.max(...Object.values(header).map(({ data_offsets: [from, to] }) => to - from)))
  const tensors = Object.entries(header).map(([name, info]) => ({ name, info, bytes: data.subarray(...info.data_offsets) }))
  const last = `model.layers.${own - 1}.`
  const added = Array.from({ length: layers - own }, (_, at) =>
    tensors
      .filter(({ name }) => name.startsWith(last))
      .map(({ name, info, bytes }) => ({
        name: `model.layers.${own + at}.${name.slice(last.length)}`,
        info,
        bytes: /\.(?:o_proj|down_proj)\./.test(name) ? zeros.subarray(0, bytes.length) : bytes,
      })),
  ).flat()
  let at = 0
  const all = [...tensors, ...added].map(({ name, info: { dtype, shape }, bytes }) => {
    const from = at
    at += bytes.length
    return { entry: [name, { dtype, shape, data_offsets: [from, at] }] as const, bytes }
  })
  const text = Buffer.from(JSON.stringify(Object.fromEntries(all.map(({ entry }) => entry))))
  const prefix = Buffer.alloc(prefixBytes)
  prefix.writeBigUInt64LE(BigInt(text.length))
  return Buffer.concat([prefix, text, ...all.map(({ bytes }) => bytes)])
}
