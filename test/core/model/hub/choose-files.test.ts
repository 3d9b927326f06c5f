import { describe, expect, it } from 'vitest'
import { chooseFiles } from '../../../../core/model/hub/choose-files.ts'
import type { HubFile } from '../../../../core/model/hub/hub.ts'
import { readHubName } from '../../../../core/model/hub/hub-name.ts'

const filesOf = (...paths: string[]): HubFile[] =>
  paths.map((path) => ({ path, bytes: 1_000_000, hash: { kind: 'git', hex: '0'.repeat(40) } }))
const chosen = (files: HubFile[], file?: string) => chooseFiles('acme/m', files, file).files.map(({ path }) => path)

describe('chooseFiles', () => {
  it('takes configuration, tokenizer and safetensors, and nothing else', () => {
    const files = filesOf(
      'README.md',
      'config.json',
      'tokenizer.json',
      'model.safetensors',
      'pytorch_model.bin',
      'onnx/model.onnx',
    )
    expect(chosen([...files, ...filesOf('original/model.safetensors', 'cat.png', 'tokenizer.model', 'vocab.json')])).toEqual([
      'config.json',
      'tokenizer.json',
      'model.safetensors',
    ])
  })

  it('takes the index, which names the weights, and the adapter of this repository', () => {
    const adapter = ['adapter/adapter_config.json', 'adapter/adapter.safetensors']
    const found = chooseFiles(
      'acme/m',
      filesOf('config.json', ...adapter, 'model.safetensors.index.json', 'consolidated.safetensors'),
    )
    expect(found).toMatchObject({ kind: 'safetensors', index: { path: 'model.safetensors.index.json' } })
    expect(found.files.map(({ path }) => path)).toEqual(['config.json', ...adapter, 'model.safetensors.index.json'])
  })

  it('takes the only GGUF model, and all its parts', () => {
    expect(chosen(filesOf('mmproj-f16.gguf', 'm-q4.gguf', 'README.md'))).toEqual(['m-q4.gguf'])
    const parts = ['Q8/m-00002-of-00002.gguf', 'Q8/m-00001-of-00002.gguf']
    expect(chosen(filesOf(...parts))).toEqual([...parts].sort())
    expect(() => chosen(filesOf(parts[1]!))).toThrow(/1 of the 2 parts/)
  })

  it('asks which of several GGUF files to take, and takes it by its path or name', () => {
    const files = filesOf('m-q4.gguf', 'Q8/m-q8.gguf')
    expect(() => chosen(files)).toThrow(/has 2 GGUF files: m-q4.gguf \(1.0 MB\), Q8\/m-q8.gguf/)
    expect(() => chosen(files, 'm-q5.gguf')).toThrow(/has no m-q5.gguf: m-q4.gguf/)
    expect(chosen(files, 'Q8/m-q8.gguf')).toEqual(['Q8/m-q8.gguf'])
    expect(chosen(files, 'm-q8.gguf')).toEqual(['Q8/m-q8.gguf'])
    expect(chosen([...files, ...filesOf('model.safetensors')], 'm-q4.gguf')).toEqual(['m-q4.gguf'])
  })

  it('refuses a model without weights that Brim reads', () => {
    expect(() => chosen(filesOf('config.json', 'pytorch_model.bin'))).toThrow(/neither model.safetensors/)
    expect(() => chosen(filesOf('model.safetensors'), 'm.gguf')).toThrow(/no \*\.gguf/)
    expect(() => chosen(filesOf('-x;.gguf', 'model-00002-of-00002.safetensors'))).toThrow(/neither/)
  })
})

describe('readHubName', () => {
  it.each(['acme/m', 'Qwen/Qwen2.5-0.5B@v1.0', 'a/b@refs/pr/1'])('reads %s', (text) => {
    expect(readHubName(text)).toBeDefined()
  })
  it.each(['./acme/m', 'acme', 'a/b/c', '../b', '/a/b', 'a/..', 'a/b@../../x', 'a/b@', 'a/b?c', 'https://hub/a/b'])(
    'takes %s for a path',
    (text) => {
      expect(readHubName(text)).toBeUndefined()
    },
  )
})
