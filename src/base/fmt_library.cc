// The compiled half of the formatting library, once for the whole project. Debian ships it as a
// shared library, which the plugin must not need, or header-only, with which every file that logs
// compiled three to ten times longer under the sanitizers. The instantiations are those that the
// header declares and the linker asked for. No format of ours has {:L}, so fmt gets a separator of
// thousands of its own: std::locale would bring 300 KB of libstdc++ into the plugin.
#define FMT_STATIC_THOUSANDS_SEPARATOR ','
#include <fmt/format-inl.h>

namespace fmt {
inline namespace v9 {
namespace detail {

template void vformat_to(buffer<char>&, string_view, basic_format_args<FMT_BUFFER_CONTEXT(char)>,
                         locale_ref);
template auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template void buffer<char>::append(const char*, const char*);
template auto dragonbox::to_decimal(float) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double) noexcept -> dragonbox::decimal_fp<double>;

}  // namespace detail
}  // namespace v9
}  // namespace fmt
