import { mkdir, open, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { weightFiles } from '../bundle/checkpoint.ts'
import { headerLength, parseHeader, prefixBytes } from '../bundle/safetensors.ts'
import { chooseFiles } from './choose-files.ts'
import type { Hub, HubFile, HubModel } from './hub.ts'
import { hubInvalid } from './hub-errors.ts'
import { type HubName, repoOf } from './hub-name.ts'

/** Contains the header of most safetensors files. */
const firstBytes = 64 << 10
/** Contains the metadata of GGUF files, whose length is not known: vocabularies of 250,000 tokens take about 10 MB. */
const ggufBytes = 24 << 20

interface OutlineOptions {
  readonly hub: Hub
  readonly name: HubName
  readonly file?: string | undefined
  /** An empty folder. */
  readonly folder: string
}

/**
 * What `openCheckpoint` needs to know a model's shape: its configuration, and its weights files with their headers and no
 * values. They are sparse: a hole takes no space on the disk.
 * @returns the path to open, and the commit it is of
 * @throws BrimError as Hub and chooseFiles do, HUB_INVALID, SAFETENSORS_INVALID
 */
export async function outlineModel({ hub, name, file, folder }: OutlineOptions): Promise<{ path: string; commit: string }> {
  const model = await hub.model(name)
  const chosen = chooseFiles(repoOf(name), model.files, file)
  const read = (wanted: HubFile, to: number) => readRange(hub, model, wanted, to)
  const write = (wanted: HubFile, place: string, bytes: Uint8Array) => writeSparse(join(folder, place), bytes, wanted.bytes)
  if (chosen.kind === 'gguf') {
    for (const each of chosen.files) await write(each, basename(each.path), await read(each, Math.min(ggufBytes, each.bytes)))
    return { path: join(folder, basename(chosen.files[0]?.path ?? '')), commit: model.commit }
  }
  const isText = ({ path }: HubFile) => /(^|_|\/)(config|adapter_config|generation_config)\.json$|\.index\.json$/.test(path)
  for (const each of chosen.files.filter((one) => isText(one) && !one.path.startsWith('tokenizer')))
    await write(each, each.path, await read(each, each.bytes))
  const single = chosen.files.filter(({ path }) => path === 'model.safetensors')
  for (const each of single.length > 0 ? single : await indexed(model, folder)) {
    const start = await read(each, Math.min(firstBytes, each.bytes))
    const end = prefixBytes + headerLength(each.path, start.subarray(0, prefixBytes), each.bytes)
    const header = end <= start.length ? start.subarray(0, end) : await read(each, end)
    await write(each, each.path, withoutOrder(each, header))
  }
  return { path: folder, commit: model.commit }
}

async function indexed({ name, files }: HubModel, folder: string): Promise<HubFile[]> {
  return (await weightFiles(folder)).map((path) => {
    const found = files.find((each) => each.path === basename(path))
    if (found) return found
    throw hubInvalid(`${repoOf(name)} has no ${basename(path)}, which its index names`)
  })
}

/** The order of GPTQ's groups is checked by its values, which a hole lacks: its tensors are taken out of the header. */
function withoutOrder({ path, bytes }: HubFile, header: Uint8Array): Uint8Array {
  const json = header.subarray(prefixBytes)
  parseHeader(path, json, bytes)
  const entries = Object.entries(JSON.parse(new TextDecoder().decode(json)) as object)
  const kept = Buffer.from(JSON.stringify(Object.fromEntries(entries.filter(([name]) => !name.endsWith('.g_idx')))))
  if (kept.length > json.length) return header
  return Buffer.concat([header.subarray(0, prefixBytes), kept, Buffer.alloc(json.length - kept.length, ' ')])
}

function readRange(hub: Hub, model: HubModel, { path }: HubFile, to: number): Promise<Buffer> {
  return hub.patiently(async () => {
    const { body, from } = await hub.start(model, path, 0, to)
    // A server that ignores ranges sends it all.
    const chunks: Buffer[] = []
    let bytes = from
    try {
      for await (const chunk of body as AsyncIterable<Buffer>) {
        chunks.push(chunk)
        bytes += chunk.length
        if (bytes >= to) break
      }
    } catch (cause) {
      throw hub.unavailable(cause)
    } finally {
      body.destroy()
    }
    if (bytes < to) throw hub.unavailable(new Error(`${path} ended after ${bytes} of ${to} bytes`))
    return Buffer.concat(chunks).subarray(0, to)
  })
}

async function writeSparse(path: string, start: Uint8Array, bytes: number): Promise<void> {
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, start)
  await using file = await open(path, 'r+')
  await file.truncate(bytes)
}
