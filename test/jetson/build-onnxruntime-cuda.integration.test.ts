import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const script = fileURLToPath(new URL('../../jetson/build-onnxruntime-cuda', import.meta.url))
const installed = new URL('../../node_modules/onnxruntime-node/package.json', import.meta.url)

const run = (...options: string[]) => spawnSync('sh', [script, ...options], { encoding: 'utf8' })

describe.skipIf(process.platform === 'win32')('build-onnxruntime-cuda', () => {
  it.each([
    ['orin', 'CMAKE_CUDA_ARCHITECTURES=87-real', 'nvidia/cuda:12.6'],
    ['thor', 'CMAKE_CUDA_ARCHITECTURES=110-real', 'nvidia/cuda:13.0'],
  ])("builds this Brim's ONNX Runtime for the GPU of %s", (gpu, arch, image) => {
    const { version } = JSON.parse(readFileSync(installed, 'utf8')) as { version: string }
    const { status, stdout } = run('--gpu', gpu, '--out', '/nowhere/ort', '--dry-run')
    expect(status).toBe(0)
    for (const part of [arch, image, `--branch v${version} `, '--use_cuda', '/nowhere/ort:/out']) expect(stdout).toContain(part)
    const build = stdout.slice(stdout.indexOf('bash -c ') + 'bash -c '.length)
    expect(spawnSync('bash', ['-n'], { input: build, encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' })
  })

  it.each([
    [['--gpu', 'nano', '--out', 'x'], "--gpu 'nano' is neither orin nor thor"],
    [['--gpu', 'orin'], '--out is missing'],
    [['--gpu'], '--gpu needs a value'],
    [['--colour'], 'unknown option --colour'],
  ])('refuses %j', (options, message) => {
    expect(run(...options)).toMatchObject({ status: 2, stderr: expect.stringContaining(`error: ${message}`) })
  })
})
