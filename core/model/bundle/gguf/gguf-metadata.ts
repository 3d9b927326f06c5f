import { invalidGguf } from './gguf-reader.ts'

type Scalar = number | boolean | string
export type MetadataArray = Scalar[]
export type MetadataValue = Scalar | MetadataArray

/** The metadata of a file, read by type. A value of another type is an error that names file and key. */
export class GgufMetadata {
  readonly file: string
  readonly #entries: ReadonlyMap<string, MetadataValue>

  constructor(file: string, entries: ReadonlyMap<string, MetadataValue>) {
    this.file = file
    this.#entries = entries
  }

  find(key: string): MetadataValue | undefined {
    return this.#entries.get(key)
  }

  keys(prefix: string): string[] {
    return [...this.#entries.keys()].filter((key) => key.startsWith(prefix))
  }

  text(key: string): string | undefined {
    return this.#typed(key, 'a string', (value) => typeof value === 'string')
  }

  number(key: string): number | undefined {
    return this.#typed(key, 'a number', (value): value is number => Number.isFinite(value))
  }

  flag(key: string): boolean | undefined {
    return this.#typed(key, 'true or false', (value) => typeof value === 'boolean')
  }

  /** A count that may be given once for each layer; the layers must have the same. */
  count(key: string): number | undefined {
    const value = this.#entries.get(key)
    const first = Array.isArray(value) && value.every((item) => item === value[0]) ? value[0] : value
    if (first === undefined || (typeof first === 'number' && Number.isInteger(first) && first >= 0)) return first
    throw invalidGguf(
      this.file,
      `has ${Array.isArray(first) ? 'layers with different values' : JSON.stringify(first)} in the metadata key ${key}`,
      'Brim needs one non-negative integer for all layers: take another conversion of the model',
    )
  }

  texts(key: string): string[] | undefined {
    return this.#typed(key, 'an array of strings', (value): value is string[] => isArrayOf(value, 'string'))
  }

  numbers(key: string): number[] | undefined {
    return this.#typed(key, 'an array of numbers', (value): value is number[] => isArrayOf(value, 'number'))
  }

  /** @throws BrimError GGUF_INVALID if the value is undefined */
  required<T>(key: string, value: T | undefined): T {
    if (value !== undefined) return value
    throw invalidGguf(this.file, `lacks the metadata key ${key}`, 'convert the model again with a recent llama.cpp')
  }

  #typed<T extends MetadataValue>(key: string, what: string, isTyped: (value: MetadataValue) => value is T): T | undefined {
    const value = this.#entries.get(key)
    if (value === undefined || isTyped(value)) return value
    throw invalidGguf(
      this.file,
      `has a metadata key ${key} that is not ${what}`,
      'convert the model again with a recent llama.cpp',
    )
  }
}

const isArrayOf = (value: MetadataValue, type: 'string' | 'number') =>
  Array.isArray(value) && value.every((item) => typeof item === type)
