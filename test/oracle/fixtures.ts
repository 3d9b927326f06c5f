import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The checkpoints under fixtures/, made by scripts/train/oracle with the real transformers. */
export const fixtureNames = ['llama', 'llama-mha', 'qwen2', 'llama3-rope', 'qwen3-5'] as const
export type FixtureName = (typeof fixtureNames)[number]

export const fixtureDir = (name: FixtureName): string => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url))

export interface OracleCase {
  promptIds: number[]
  /** 64 greedily chosen tokens; every step's top two logits lie at least 1e-3 apart. */
  continuation: number[]
  /** Positions in prompt + continuation. */
  positions: number[]
  /** [positions, vocab] row-major. */
  logits: Float32Array
}

interface Oracle {
  vocab: number
  smallestGap: number
  cases: OracleCase[]
}

export const readOracle = (name: FixtureName): Oracle => readOracleIn(fixtureDir(name))

export function readOracleIn(folder: string): Oracle {
  const file = JSON.parse(readFileSync(join(folder, 'oracle.json'), 'utf8')) as {
    vocab: number
    smallestGap: number
    cases: (Omit<OracleCase, 'logits'> & { logits: string })[]
  }
  return { ...file, cases: file.cases.map((row) => ({ ...row, logits: floats(row.logits) })) }
}

function floats(base64: string): Float32Array {
  const bytes = Buffer.from(base64, 'base64')
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length))
}
