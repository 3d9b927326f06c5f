import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import koffi from 'koffi'
import { enlargeStacks } from '../../core/kit/base/native-stacks.ts'
import type { Provider } from '../../core/model/engine/provider.ts'
import { isMissing } from './prerequisites.ts'

const folder = fileURLToPath(new URL('../../.cache/vulkan/', import.meta.url))
/** koffi unloads a library without references. */
const loaded: unknown[] = []
const icd = `${folder}vk_swiftshader_icd.json`

/** What a process needs to find the Vulkan device that computes on the CPU. */
export const softwareGpuEnv = {
  LD_LIBRARY_PATH: folder,
  VK_DRIVER_FILES: icd,
  XDG_RUNTIME_DIR: tmpdir(),
  // The plug-in refuses devices that compute on the CPU otherwise.
  ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER: '1',
} as const

/**
 * WebGPU over a Vulkan device that computes on the CPU, in this process; undefined, with a printed reason, where the device was
 * not installed (test/install-vulkan says why). Only for test files with a process of their own.
 */
export function softwareGpu(): Provider | undefined {
  if (isMissing('a Vulkan device (test/install-vulkan)', existsSync(icd))) return undefined
  const { LD_LIBRARY_PATH: _, ...env } = softwareGpuEnv
  Object.assign(process.env, env)
  // The search path of libraries is read at the start of a process only; a library that is loaded is found by its name.
  enlargeStacks(koffi)
  loaded.push(koffi.load(`${folder}libvulkan.so.1`, { global: true }))
  return { name: 'WebGpuExecutionProvider' }
}
