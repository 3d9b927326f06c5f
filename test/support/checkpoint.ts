import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type RandomCheckpointOptions, tinyLlamaConfig, writeRandomCheckpoint } from '../../lab/random-checkpoint.ts'

/** A random checkpoint of a few layers, with further fields in its config.json. */
export async function tinyCheckpoint(
  folder: string,
  config: Record<string, unknown> = {},
  options: Partial<Omit<RandomCheckpointOptions, 'config'>> = {},
): Promise<string> {
  await writeRandomCheckpoint(folder, { config: { ...tinyLlamaConfig, ...config }, dtype: 'F32', seed: 1, ...options })
  return folder
}

export type HeaderEntry = { dtype: string; shape: number[]; data_offsets: [number, number] }

/** Edits the header of the checkpoint's safetensors file, not its data. */
export function editHeader(
  folder: string,
  edit: (header: Record<string, HeaderEntry>) => void,
  file = 'model.safetensors',
): void {
  const path = join(folder, file)
  const bytes = readFileSync(path)
  const end = 8 + Number(bytes.readBigUInt64LE(0))
  const header = JSON.parse(bytes.toString('utf8', 8, end))
  edit(header)
  writeFileSync(path, safetensors(JSON.stringify(header), bytes.subarray(end)))
}

export function safetensors(json: string, data: Uint8Array): Buffer {
  const header = Buffer.from(json)
  const prefix = Buffer.alloc(8)
  prefix.writeBigUInt64LE(BigInt(header.length))
  return Buffer.concat([prefix, header, data])
}

/** Adds a copy of a tensor under another name. */
export function repeatTensor(path: string, name: string, copyName: string): void {
  const bytes = readFileSync(path)
  const end = 8 + Number(bytes.readBigUInt64LE(0))
  const header: Record<string, HeaderEntry> = JSON.parse(bytes.toString('utf8', 8, end))
  const data = bytes.subarray(end)
  const { dtype, shape, data_offsets } = header[name]!
  const copy = data.subarray(...data_offsets)
  const repeated: HeaderEntry = { dtype, shape, data_offsets: [data.length, data.length + copy.length] }
  writeFileSync(path, safetensors(JSON.stringify({ ...header, [copyName]: repeated }), Buffer.concat([data, copy])))
}
